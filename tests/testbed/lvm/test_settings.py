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

"""lvm.conf of the host, where LVM's report is read."""

import os
import re
import shutil
import subprocess

import fixtures

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import report
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tests.testbed.lvm import base

_SECTIONS = 'log', 'report', 'global'

# Parts of all settings; those of a part are tried at once.
_PARTS = 16

# What is overridden for another reason than the report.
_NOT_FOR_THE_REPORT = {'activation/monitoring', 'devices/issue_discards'}

# Values of settings where another one than by default says little.
_VALUES = {
    'list_item_separator': '";"',
    'output_format': '"json"',
    'prefix': '"lvm: "',
    'units': '"h"',
}

_SETTING = re.compile(r'\t(\w+)=(.*)')


def other_value(name, default):
    """Return a value of a setting that is not its default."""
    if name in _VALUES:
        return _VALUES[name]
    if default in ('0', '1'):
        return str(1 - int(default))
    if default.isdecimal():
        return str(int(default) + 1)
    return '["x"]' if default.startswith('[') else '"x"'


def all_settings():
    """Return a line of lvm.conf for each setting, by the setting."""
    found = {'log/file': 'log { file="/dev/null" }'}
    for section in _SECTIONS:
        listed = shell.run('lvmconfig', '--typeconfig', 'full', section)
        for name, default in _SETTING.findall(listed):
            value = other_value(name, default)
            found[f'{section}/{name}'] = f'{section} {{ {name}={value} }}'
    return found


class SettingsTestCase(base.LVMTestCase):
    """A thick group with a snapshot."""

    devices = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.uuid = cls.prepared(cls.spare[0]).uuid
        volumes.create(cls.uuid, 'volume-1', '1', 's', 256 * base.MIB)
        copies.snapshot(cls.uuid, 'volume-1', 'snapshot-2', '2')
        cls.defaults = all_settings()

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        shutil.copytree('/etc/lvm', self.directory, dirs_exist_ok=True)
        self.useFixture(
            fixtures.EnvironmentVariable('LVM_SYSTEM_DIR', self.directory)
        )
        self.devices = groups.require(self.uuid).devices
        self.configure('')
        self.before = self.read()

    def configure(self, line):
        """Write lvm.conf."""
        with open(os.path.join(self.directory, 'lvm.conf'), 'w') as stream:
            stream.write(f'config {{ checks=1 }}\n{line}\n')

    def read(self):
        """Return the groups by LVM's report, or the error as a text."""
        try:
            return report.parse(report.read(self.devices))
        except exception.DiskError as error:
            return str(error)

    def changing(self, settings):
        """Return those of some settings that change the report.

        Not those with which LVM does nothing at all. All settings are tried
        at once; each half alone if the report changes, and so on.
        """
        self.configure('\n'.join(settings.values()))
        if self.read() == self.before:
            return []
        if len(settings) == 1:
            works = not subprocess.run(['vgs'], capture_output=True).returncode
            return list(settings) if works else []
        names = list(settings)
        return [
            name
            for half in (names[::2], names[1::2])
            for name in self.changing({one: settings[one] for one in half})
        ]

    def test_none_changes_the_report(self):
        self.assertIn('volume-1', repr(self.before))
        self.assertLess(100, len(self.defaults))
        names = sorted(self.defaults)
        for number in range(_PARTS):
            part = {
                name: self.defaults[name] for name in names[number::_PARTS]
            }
            self.assertEqual([], self.changing(part))

    def test_a_message_precedes_the_report(self):
        self.configure('devices { multipath_wwids_file="x" }')
        self.assertIn('\n{', report.read(self.devices))
        self.assertEqual(self.before, self.read())

    def test_all_that_is_overridden_for_it_would_change_it(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.lvm.commands._CONFIG', ()
            )
        )
        overridden = commands._SETTINGS.keys() - _NOT_FOR_THE_REPORT
        self.assertEqual(
            sorted(overridden),
            sorted(
                self.changing(
                    {name: self.defaults[name] for name in overridden}
                )
            ),
        )
