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


import json
import os
import pathlib

import fixtures
import testtools

from tools.minicloud import state as states
from tools.whole_cloud import facts

DISK = '5d7a3c0e-0000-4000-8000-00000000000'
VOLUME = '8f0c2a4e-0000-4000-8000-00000000000'


class VDisksTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.state = states.State(top)
        self.groups = {}
        self.useFixture(fixtures.MockPatchObject(
            facts.process, 'run', self.lvs
        ))  # fmt: skip

    def lvs(self, *argv):
        rows = [
            {'vg_name': f'diskplacer-{DISK}{group}', 'lv_name': name}
            for group, names in self.groups.items()
            for name in names
        ]
        return json.dumps({'report': [{'lv': rows}]})

    def add_host(self, name, *groups):
        root = self.state.disk_root(name)
        for entry in ('by-volume', *(f'{DISK}{group}' for group in groups)):
            os.makedirs(root / entry)

    def test_of_a_host(self):
        self.add_host('one', 1, 2)
        self.add_host('two', 3)
        self.groups = {
            1: [f'volume-{VOLUME}1', 'pool'],
            2: [f'volume-{VOLUME}2', f'volume-{VOLUME}2.1'],
            3: [f'volume-{VOLUME}1'],
            4: [f'volume-{VOLUME}4'],
        }
        self.assertEqual(
            {
                f'{VOLUME}1': [f'{DISK}1'],
                f'{VOLUME}2': [f'{DISK}2', f'{DISK}2'],
            },
            facts.vdisks(self.state, 'one'),
        )
        self.assertEqual(
            {f'{VOLUME}1': [f'{DISK}3']}, facts.vdisks(self.state, 'two')
        )
