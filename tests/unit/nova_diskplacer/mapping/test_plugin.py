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

"""Tests of a mapping that another package installs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import unittest

import numpy as np

from nova_diskplacer import mapping
from nova_diskplacer.mapping import plugins
from tests.unit.nova_diskplacer.mapping import most_room

ROOT = pathlib.Path(mapping.__file__).parents[2]
ENTRY_POINTS = f"""
[{mapping.NAMESPACE}]
most_room = {most_room.__name__}:MostRoom
"""
USE = """
from nova_diskplacer import extra_specs
from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.mapping import plugins
from nova_diskplacer.scheduler import plan

specs = {'diskplacer:vdisks': '1', 'diskplacer:vdisk_gb': '1'}
request = flavor.parse({**specs, 'diskplacer:mapping': 'most_room'})
assert request.mapping == 'most_room'
assert type(plugins.load(request.mapping)).__name__ == 'MostRoom'
for validator in extra_specs.register():
    if validator.name == 'diskplacer:mapping':
        validator.validate('diskplacer:mapping', 'most_room')
try:
    flavor.parse({**specs, 'diskplacer:mapping': 'most_full'})
except ValueError as error:
    print(error)
"""


class PluginTest(unittest.TestCase):
    def test_an_installed_mapping_is_allowed(self):
        with tempfile.TemporaryDirectory() as directory:
            metadata = pathlib.Path(directory, 'most_room-1.0.dist-info')
            metadata.mkdir()
            (metadata / 'METADATA').write_text('Name: most_room\n')
            (metadata / 'entry_points.txt').write_text(ENTRY_POINTS)
            found = subprocess.run(
                [sys.executable, '-c', textwrap.dedent(USE)],
                env={**os.environ, 'PYTHONPATH': f'{directory}:{ROOT}'},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(0, found.returncode, found.stderr)
        self.assertEqual(
            'diskplacer:mapping=most_full is not one of: '
            + ', '.join(sorted([*mapping.names(), 'most_room']))
            + '\n',
            found.stdout,
        )

    def test_a_mapping_that_is_not_installed(self):
        with self.assertRaisesRegex(
            ValueError, 'most_room is not .*: ' + ', '.join(mapping.names())
        ):
            plugins.load('most_room')


class MostRoomTest(unittest.TestCase):
    def test_place(self):
        slots = np.array([[1, 3, 2], [1, 0, 1]])
        counts = most_room.MostRoom().place(slots, np.zeros((2, 3)), 3, 1)
        self.assertEqual([[0, 2, 1], [0, 0, 0]], counts.tolist())
