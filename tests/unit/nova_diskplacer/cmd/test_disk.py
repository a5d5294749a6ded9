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

"""The arguments and the output of diskplacer-manage disk."""

import argparse
import contextlib
import dataclasses
import io
import json
import os
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.cmd import disk
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks

UUIDS = [
    '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11',
    '7d1f2b0c-5e0f-4a63-9a55-0e9f5b1c2d22',
]


class DiskTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        conf.register_opts(self.conf)
        self.conf([], default_config_files=[])
        self.disks = [
            fake_disks.make_disk(
                UUIDS[0], 100, held=[fake_disks.make_vdisk('v', 's', 10)]
            ),
            fake_disks.make_disk(UUIDS[1], 50, 'ssd'),
        ]
        self.patch(discover, 'discover', return_value=self.disks)

    def patch(self, *args, **kwargs):
        patch = mock.patch.object(*args, **kwargs)
        mocked = patch.start()
        self.addCleanup(patch.stop)
        return mocked

    def run_disk(self, *arguments):
        """Run a command; returns (exit status, output)."""
        parser = argparse.ArgumentParser()
        disk.register(parser.add_subparsers())
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(output),
        ):
            try:
                args = parser.parse_args(['disk', *arguments])
                status = args.handler(self.conf, args)
            except SystemExit as left:
                status = left.code
        return status, output.getvalue()

    def test_list(self):
        status, output = self.run_disk('list')
        self.assertEqual(0, status)
        rows = [line.split('|')[1:-1] for line in output.splitlines()[3:-1]]
        self.assertEqual(
            [
                [UUIDS[0], '/dev/sdx', 'hdd', 'Fake', '', '100', '90']
                + ['150', '1', 'ok'],
                [UUIDS[1], '/dev/sdx', 'ssd', 'Fake', '', '50', '50']
                + ['150', '0', 'ok'],
            ],
            [[cell.strip() for cell in row] for row in rows],
        )
        status, output = self.run_disk('list', '--format', 'json')
        found = json.loads(output)
        self.assertEqual(UUIDS, [one['uuid'] for one in found])
        self.assertEqual([90, 50], [one['free_gb'] for one in found])

    def test_show(self):
        _, output = self.run_disk('show', UUIDS[0], '--format', 'json')
        (vdisk,) = json.loads(output)['vdisks']
        self.assertEqual(
            ('volume-v', 'v', 's', 10),
            (
                vdisk['name'],
                vdisk['volume_id'],
                vdisk['server_id'],
                vdisk['size_gb'],
            ),
        )
        _, output = self.run_disk('show', UUIDS[0])
        self.assertRegex(output, r'\| volume-v \| volume \| v +\| s +\| 10 ')
        error = self.assertRaises(
            exception.DiskError, self.run_disk, 'show', 'x'
        )
        self.assertIn('no disk x in /var/lib/diskplacer', str(error))

    def test_remove_vdisk(self):
        path = self.useFixture(fixtures.TempDir()).path
        vdisks.make_directory(path)
        vdisks.create(path, 'volume-v', 'v', None, 1 << 20)
        here = dataclasses.replace(
            self.disks[0], path=path, vdisks=vdisks.scan(path)
        )
        inspect = self.patch(discover, 'inspect', return_value=here)
        self.patch(os, 'geteuid', return_value=0)
        command = 'remove-vdisk', UUIDS[0], 'volume-v'
        with open(vdisks.path(path, 'volume-v'), 'rb'):
            error = self.assertRaises(
                exception.DiskError, self.run_disk, *command
            )
            self.assertIn('it is in use', str(error))
        self.assertEqual(
            (0, 'volume-v was removed\n'), self.run_disk(*command)
        )
        inspect.return_value = dataclasses.replace(here, vdisks=())
        self.assertEqual(
            (0, 'volume-v was not there\n'), self.run_disk(*command)
        )
        error = self.assertRaises(
            exception.DiskError, self.run_disk, *command[:2], '../identity'
        )
        self.assertIn('cannot be the name of a vdisk', str(error))
        inspect.return_value = fake_disks.make_disk(
            UUIDS[0], 1, health='missing'
        )
        error = self.assertRaises(exception.DiskError, self.run_disk, *command)
        self.assertIn('is missing', str(error))

    def test_remove_vdisk_of_a_volume_group(self):
        self.patch(discover, 'inspect', return_value=self.disks[0])
        self.patch(discover, 'kind_of', return_value=discover.LVM)
        self.patch(os, 'geteuid', return_value=0)
        legs = ['volume-v', 'volume-v.leg1']
        self.patch(volumes, 'legs', return_value=legs)
        delete = self.patch(volumes, 'delete')
        status, output = self.run_disk('remove-vdisk', UUIDS[0], 'volume-v')
        self.assertEqual((0, 'volume-v was removed\n'), (status, output))
        self.assertEqual(
            [mock.call(UUIDS[0], leg) for leg in legs], delete.mock_calls
        )

    def test_show_what_was_measured(self):
        model = io_model.Model(9, 8, 7, 6, 5, 4, 3, 'bfq', 'today')
        with mock.patch.object(io_model, 'load', return_value=model):
            _, output = self.run_disk('show', UUIDS[0], '--format', 'json')
            self.assertEqual(
                dataclasses.asdict(model), json.loads(output)['io_model']
            )
            _, output = self.run_disk('show', UUIDS[0])
        self.assertRegex(output, r'\| io_model rrandiops +\| 7 ')
        _, output = self.run_disk('show', UUIDS[0])
        self.assertNotIn('io_model', output)

    def test_show_tells_snapshots_and_volumes_apart(self):
        self.disks[0] = dataclasses.replace(
            self.disks[0],
            vdisks=(
                VDisk('snapshot-p', 'p', None, 1 << 30),
                VDisk('stray', '', None, 1 << 30),
                VDisk('volume-v', 'v', 's', 1 << 30),
            ),
        )
        _, output = self.run_disk('show', UUIDS[0], '--format', 'json')
        self.assertEqual(
            ['snapshot', 'unmanaged', 'volume'],
            [vdisk['kind'] for vdisk in json.loads(output)['vdisks']],
        )
        _, output = self.run_disk('show', UUIDS[0])
        self.assertRegex(output, r'\| snapshot-p \| snapshot +\| p +\|')

    def test_prepare(self):
        self.patch(os, 'geteuid', return_value=0)
        mocked = self.patch(prepare, 'prepare', return_value=self.disks[1])
        root = self.conf.diskplacer.disk_root
        for arguments, expected in (
            ((), (None, None, False, '/etc/fstab', None)),
            (
                '--medium ssd --mbps 90 --wipe --fstab /f'.split(),
                ('ssd', 90, True, '/f', None),
            ),
            (
                ('--backend', 'lvm'),
                (None, None, False, '/etc/fstab', lvm_prepare.Options()),
            ),
            (
                '--backend lvm --thin --no-zero'.split(),
                (
                    None,
                    None,
                    False,
                    '/etc/fstab',
                    lvm_prepare.Options(thin=True, zero=False),
                ),
            ),
        ):
            status, output = self.run_disk('prepare', '/dev/sdx', *arguments)
            self.assertEqual(0, status)
            self.assertIn(UUIDS[1], output)
            mocked.assert_called_with(root, '/dev/sdx', *expected)

    def test_prepare_a_disk_that_is_withheld(self):
        self.patch(os, 'geteuid', return_value=0)
        for draining in (False, True):
            found = dataclasses.replace(self.disks[1], draining=draining)
            self.patch(prepare, 'prepare', return_value=found)
            status, output = self.run_disk('prepare', '/dev/sdx')
            self.assertEqual(0, status)
            self.assertEqual(
                draining, f'disk drain {UUIDS[1]} --cancel' in output
            )

    def test_options_of_lvm(self):
        self.patch(os, 'geteuid', return_value=0)
        for option in ('--thin', '--no-zero'):
            error = self.assertRaises(
                exception.DiskError,
                self.run_disk,
                'prepare',
                '/dev/sdx',
                option,
            )
            self.assertIn('--backend lvm', str(error))

    def test_bad_arguments(self):
        for arguments, reason in (
            (('prepare', '/dev/sdx', '--medium', 'any'), "'any'"),
            (('prepare', '/dev/sdx', '--mbps', '0'), 'not an integer of at'),
            (('prepare', '/dev/sdx', '--mbps', 'x'), 'not an integer of at'),
            (
                ('prepare', '/dev/sdx', '--mbps', str(1 << 30)),
                f"'{1 << 30}' is not an integer of at least 1, at most "
                f'{constants.MAX_FIGURE}',
            ),
            (('prepare',), 'required'),
            (('forget',), 'required'),
            ((), 'required'),
        ):
            status, output = self.run_disk(*arguments)
            self.assertEqual(2, status)
            self.assertIn(reason, output)

    def test_not_root(self):
        self.patch(os, 'geteuid', return_value=1)
        for arguments in (('prepare', '/dev/sdx'), ('forget', UUIDS[0])):
            error = self.assertRaises(
                exception.DiskError, self.run_disk, *arguments
            )
            self.assertIn('needs root', str(error))
