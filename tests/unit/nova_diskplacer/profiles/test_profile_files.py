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

import pathlib

import fixtures
from oslotest import base

from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import profile_files


class DumpTest(base.BaseTestCase):
    """What is written for a profile reads as the same profile."""

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def reread(self, profile):
        path = self.path / 'profile.yaml'
        path.write_text(profile_files.dump(profile), encoding='utf-8')
        return profile_files.read(path)

    def test_shipped(self):
        for profile in catalogue.load().values():
            self.assertEqual(profile, self.reread(profile))

    def test_least(self):
        profile = definitions.Profile('own', 'Our own', 'It is ours.')
        self.assertEqual(profile, self.reread(profile))
