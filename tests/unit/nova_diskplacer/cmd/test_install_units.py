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

"""diskplacer-manage install-units; tests/packaging runs what it installs."""

import contextlib
import io
import os
import pathlib
import sys
from importlib import metadata
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import install_units
from nova_diskplacer.cmd import manage

UNITS = pathlib.Path(__file__).parents[4] / 'etc/systemd'


class InstallUnitsTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.programs = '/opt/disk-placer_1.0/bin'
        self.useFixture(
            fixtures.MonkeyPatch('sys.executable', self.programs + '/python')
        )

    def install(self, *names, files=None):
        """Run the command; returns its status, output and errors."""
        output = io.StringIO(), io.StringIO()
        shipped = list(UNITS.iterdir()) if files is None else files
        with (
            mock.patch.object(metadata, 'files', return_value=shipped),
            contextlib.redirect_stdout(output[0]),
            contextlib.redirect_stderr(output[1]),
        ):
            status = manage.main(
                ['install-units', *names, '--directory', self.directory]
            )
        return status, *(one.getvalue() for one in output)

    def test_units_have_absolute_paths(self):
        names = sorted(path.stem for path in UNITS.iterdir())
        self.assertEqual(sorted(install_units.NAMES), names)
        for _ in range(2):
            status, output, _ = self.install(*names)
            self.assertEqual(0, status)
        self.assertIn('systemctl enable --now ' + ' '.join(names), output)
        for name in names:
            path = pathlib.Path(self.directory, f'{name}.service')
            self.assertEqual(0o100644, os.stat(path).st_mode)
            before = (UNITS / path.name).read_text().splitlines()
            after = path.read_text().splitlines()
            changed = [
                two
                for one, two in zip(before, after, strict=True)
                if one != two
            ]
            self.assertNotEqual([], changed)
            for line in changed:
                self.assertRegex(
                    line,
                    f'^Exec[A-Za-z]+={self.programs}/diskplacer-[a-z]+ ',
                )

    def test_missing(self):
        status, _, errors = self.install('diskplacer-agent', files=[])
        self.assertEqual(1, status)
        self.assertIn(f'{sys.prefix} does not have', errors)

    def test_directory_that_does_not_exist(self):
        self.directory = '/proc/no/such'
        status, _, errors = self.install('diskplacer-agent')
        self.assertEqual(1, status)
        self.assertIn('--directory /proc/no/such: No such file', errors)

    def test_path_that_systemd_does_not_take_as_it_is(self):
        for path in ('/opt/a b/bin', '/opt/50%/bin', '/opt/ü/bin'):
            error = self.assertRaises(
                exception.DiskPlacerError, install_units.with_paths, '', path
            )
            self.assertIn(repr(path), str(error))

    def test_unknown_unit(self):
        error = self.assertRaises(SystemExit, self.install, 'nova-compute')
        self.assertEqual(2, error.code)
