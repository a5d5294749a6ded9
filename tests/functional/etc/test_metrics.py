#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""What the agent exposes, as promtool reads it."""

import subprocess

from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import test_metrics


class ExpositionTest(test_metrics.ServedTest):
    def test_names_follow_the_conventions(self):
        self.serve(example.status_provider())
        text = self.get()
        self.assertIn('diskplacer_disk_warnings{', text)
        done = subprocess.run(
            ['promtool', 'check', 'metrics'],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual((0, ''), (done.returncode, done.stdout))
