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


import os
import stat
import threading

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic.processes import operator_overrides as overrides


class OverridesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.root, overrides.FILE)

    def change(self, order, *arguments):
        overrides.change(self.root, lambda given: order(given, *arguments))

    def test_none(self):
        self.assertEqual(inputs.Overrides(), overrides.read(self.root))

    def test_they_stay(self):
        self.change(overrides.forbid, 'v')
        self.change(overrides.force, 'w', 3)
        expected = inputs.Overrides(False, frozenset('v'), {'w': 3})
        self.assertEqual(expected, overrides.read(self.root))
        self.change(overrides.allow, 'v')
        self.change(overrides.allow, 'w')
        self.change(overrides.allow, 'unknown')
        self.assertEqual(inputs.Overrides(), overrides.read(self.root))

    def test_only_root_reads_and_writes(self):
        self.change(overrides.forbid, 'v')
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.path).st_mode))

    def test_malformed(self):
        for text in (
            '', '[]', '{}', '{"forbid_all": 1, "forbidden": [], "forced": {}}',
            '{"forbid_all": false, "forbidden": ["v"], "forced": {"v": 1}}',
        ):  # fmt: skip
            with open(self.path, 'w') as stream:
                stream.write(text)
            error = self.assertRaises(
                exception.ElasticError, overrides.read, self.root
            )
            self.assertIn(self.path, str(error))
            self.assertIn('remove the file', str(error))
            # and it is not replaced
            self.assertRaises(
                exception.ElasticError,
                self.change,
                overrides.forbid,
                'v',
            )

    def test_no_disk_root(self):
        self.root += '/missing'
        error = self.assertRaises(
            exception.DiskError, self.change, overrides.forbid, 'v'
        )
        self.assertIn(self.root, str(error))

    def test_at_the_same_time(self):
        names = [f'v{number}' for number in range(20)]
        threads = [
            threading.Thread(target=self.change, args=(overrides.forbid, name))
            for name in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(set(names), overrides.read(self.root).forbidden)
