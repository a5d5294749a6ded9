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

import argparse
import contextlib
import dataclasses
import io
import json
import os
import signal
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.cmd import measure
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.disks.measure import conditions
from nova_diskplacer.disks.measure import fio
from nova_diskplacer.disks.measure import hwdb
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from tests import configured
from tests.fakes import disks as fake_disks

UUIDS = [
    '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11',
    '7d1f2b0c-5e0f-4a63-9a55-0e9f5b1c2d22',
]
GIB = 1 << 30


class FakeFio:
    """A disk of 100 MB/s and 50 IOPS; loads fail after some."""

    runs = ()
    fails_after = None

    def __init__(self, path, size_bytes, cgroup):
        FakeFio.runs = [(path, size_bytes, cgroup)]

    def fill(self):
        self.runs.append('fill')

    def flush(self):
        self.runs.append('flush')

    def measure(self, load, seconds):
        self.runs.append((load.rw, load.block, seconds))
        if len(self.runs) == FakeFio.fails_after:
            raise KeyboardInterrupt
        return fio.Result(100e6, 50.0)


class MeasureTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        configuration = self.useFixture(configured.Options())
        self.conf, self.state_dir = configuration.conf, configuration.state_dir
        self.disks = [
            fake_disks.make_disk(UUIDS[0]),
            fake_disks.make_disk(UUIDS[1]),
        ]
        self.saved = {}
        self.space = []
        FakeFio.fails_after = None
        self.patch(os, 'geteuid', return_value=0)
        self.patch(signal, 'signal')
        self.patch(discover, 'discover', side_effect=lambda *_: self.disks)
        self.patch(fio, 'Fio', FakeFio)
        self.patch(fio, 'temporary_space', self.make_space)
        self.patch(conditions, 'locked', return_value=contextlib.nullcontext())
        self.patch(conditions, 'root_cgroup', return_value='/cgroup')
        self.exclusive = self.patch(
            block_queue, 'exclusive_device', return_value='sdx'
        )
        self.plain = []
        self.patch(plain_queue, 'applied', self.make_plain)
        self.patch(
            io_model,
            'save',
            side_effect=lambda _, uuid, model: self.saved.update(
                {uuid: model}
            ),
        )
        self.libvirt = self.patch(
            libvirt_connection, 'import_libvirt', return_value=object()
        )
        self.domains = self.patch(
            libvirt_servers, 'list_servers', return_value=[]
        )

    def patch(self, *args, **kwargs):
        patch = mock.patch.object(*args, **kwargs)
        mocked = patch.start()
        self.addCleanup(patch.stop)
        return mocked

    @contextlib.contextmanager
    def make_space(self, disk_root, uuid, size_bytes):
        self.space.append(uuid)
        try:
            yield '/scratch'
        finally:
            self.space.remove(uuid)

    @contextlib.contextmanager
    def make_plain(self, state_dir, uuid, device):
        FakeFio.runs.append('plain')
        self.plain.append((state_dir, uuid, device))
        try:
            yield
        finally:
            FakeFio.runs.append('restored')

    def run_measure(self, *arguments):
        """Run the command; returns (exit status, stdout, stderr)."""
        parser = argparse.ArgumentParser()
        measure.register(parser.add_subparsers())
        with (
            contextlib.redirect_stdout(io.StringIO()) as output,
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            try:
                args = parser.parse_args(['measure', *arguments])
                status = args.handler(self.conf, args)
            except SystemExit as left:
                status = left.code
        return status, output.getvalue(), said.getvalue()

    def test_hard_disks_have_no_io_cost(self):
        self.disks[1] = fake_disks.make_disk(UUIDS[1], medium='ssd')
        _, _, said = self.run_measure(*UUIDS)
        self.assertIn(f'Disk {UUIDS[0]} is a hard disk', said)
        self.assertIn('io.cost is refused', said)
        self.assertNotIn(f'Disk {UUIDS[1]} is a hard disk', said)

    def hold(self, *held):
        self.disks[0] = fake_disks.make_disk(UUIDS[0], held=held)

    def server(self, running=True):
        path = f'/disks/{UUIDS[0]}/vdisks/volume-v'
        server = libvirt_servers.Server(
            'server', 'x', {}, (path,), {}, running, False, ''
        )
        self.domains.return_value = [server]

    def refused(self, *arguments):
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_measure, *arguments
        )
        self.assertEqual({}, self.saved)
        return str(error)

    def test_two_disks(self):
        status, output, said = self.run_measure(
            *UUIDS, UUIDS[0], '--format', 'json'
        )
        self.assertEqual(0, status)
        found = json.loads(output)
        self.assertEqual(UUIDS, [one['uuid'] for one in found])
        self.assertEqual(UUIDS, list(self.saved))
        model = self.saved[UUIDS[1]]
        self.assertEqual(
            (100_000_000, 100_000_000, 50, 50, 50, 50, 20_000),
            (model.rbps, model.wbps, model.rseqiops, model.rrandiops,
             model.wseqiops, model.wrandiops, model.latency),
        )  # fmt: skip
        self.assertEqual(100, found[0]['mbps'])
        self.assertEqual(('/scratch', 8 * GIB, '/cgroup'), FakeFio.runs[0])
        self.assertEqual(['fill', 'plain'], FakeFio.runs[1:3])
        self.assertEqual(15, FakeFio.runs[3][2])
        self.assertEqual(['flush', 'restored'], FakeFio.runs[-2:])
        self.assertEqual(
            [(self.state_dir, uuid, 'sdx') for uuid in UUIDS], self.plain
        )
        self.assertEqual('none', model.scheduler)
        self.assertIn(f'disk {UUIDS[1]}: 7 of 7, random writes ... 50', said)
        # of what may be claimed there is less than the 150 before
        self.assertIn('before 150. Existing claims', said)
        self.assertEqual([], self.space)

    def test_a_table(self):
        _, output, _ = self.run_measure(UUIDS[0])
        self.assertRegex(output, rf'\| {UUIDS[0]} \| 100  \| 100000000 ')

    def test_unknown_or_missing(self):
        self.assertIn('no disk x in', self.refused('x'))
        self.disks[1] = fake_disks.make_disk(
            UUIDS[1], health=discover.READ_ONLY
        )
        self.assertIn('is read-only', self.refused(*UUIDS))

    def test_it_takes_root(self):
        self.patch(os, 'geteuid', return_value=1000)
        self.assertIn('needs root', self.refused(UUIDS[0]))

    def test_numbers(self):
        for bad in (
            ['--size', '63'],
            ['--size', '1G'],
            ['--seconds', '0'],
            ['--seconds', '-1'],
        ):
            status, _, said = self.run_measure(UUIDS[0], *bad)
            self.assertEqual(2, status)
            self.assertIn('is not an integer of at least', said)

    def test_servers_use_it(self):
        self.hold(fake_disks.make_vdisk('v', 'server', 10))
        self.server()
        said = self.refused(*UUIDS)
        self.assertIn(f'disk {UUIDS[0]} has vdisks of running servers', said)
        self.assertIn('server', said)
        self.assertIn('--force', said)
        status, _, _ = self.run_measure(*UUIDS, '--force')
        self.assertEqual((0, UUIDS), (status, list(self.saved)))

    def test_servers_do_not_run(self):
        self.hold(fake_disks.make_vdisk('v', 'server', 10))
        self.server(running=False)
        self.assertEqual(0, self.run_measure(UUIDS[0])[0])

    def test_it_is_not_known_what_runs(self):
        self.domains.side_effect = exception.HypervisorError('away')
        # nobody asks while there are no vdisks
        self.assertEqual(0, self.run_measure(UUIDS[0])[0])
        self.saved.clear()
        self.hold(fake_disks.make_vdisk('v', 'server', 10))
        self.assertIn('away', self.refused(UUIDS[0]))
        self.libvirt.return_value = None
        self.assertIn('without libvirt-python', self.refused(UUIDS[0]))

    def test_what_was_left_is_no_vdisk(self):
        self.libvirt.return_value = None
        self.hold(VDisk(volumes.TEMPORARY, '', None, GIB))
        self.assertEqual(0, self.run_measure(UUIDS[0])[0])

    def test_figures_of_another_disk(self):
        drive, other = (
            [fake_disks.make_disk(uuid, model=model) for uuid in UUIDS[:2]]
            for model in ('HUS724040', '')
        )
        model = io_model.Model(1, 2, 3, 4, 5, 6, 7)
        found = self.patch(io_model, 'load', return_value=model)
        self.disks = drive
        arguments = (UUIDS[0], '--like', UUIDS[1])
        status, output, _ = self.run_measure(*arguments, '--format', 'json')
        self.assertEqual((0, {UUIDS[0]: model}), (status, self.saved))
        self.assertEqual(2, json.loads(output)[0]['rseqiops'])
        self.assertEqual([], self.space)
        self.saved.clear()
        self.disks = other
        self.assertIn("model ''", self.refused(*arguments))
        self.run_measure(*arguments, '--force')
        self.assertEqual({UUIDS[0]: model}, self.saved)
        self.saved.clear()
        self.disks = drive
        found.return_value = None
        self.assertIn('was never measured', self.refused(*arguments))
        self.assertIn('no disk else', self.refused(UUIDS[0], '--like', 'else'))

    def test_figures_of_a_file(self):
        path = self.useFixture(fixtures.TempDir()).join('figures')
        arguments = (*UUIDS[:2], '--from', path)
        self.assertIn(path, self.refused(*arguments))
        measured = io_model.Model(1, 2, 3, 4, 5, 6, 7, 'none', 'today')
        kernels = io_model.Model(1, 2, 300, 4, 5, 6, 3333)
        fields = dataclasses.asdict(measured)
        for text, expected in (
            (json.dumps([{'uuid': 'x', 'mbps': 1, **fields}]), measured),
            (
                '8:16 ctrl=user model=linear rbps=1 rseqiops=2 rrandiops=300 '
                'wbps=4 wseqiops=5 wrandiops=6\n',
                kernels,
            ),
        ):
            with open(path, 'w') as stream:
                stream.write(text)
            self.run_measure(*arguments)
            self.assertEqual(dict.fromkeys(UUIDS[:2], expected), self.saved)
            self.saved.clear()
        for text, problem in (
            ('rbps=1', "rseqiops '' is not"),
            ('[]', "rbps '' is not"),
            ('[5]', "rbps '' is not"),
            (json.dumps([{**fields, 'wbps': 0}]), "wbps '0' is not"),
            ('{', "rbps '' is not"),
        ):
            with open(path, 'w') as stream:
                stream.write(text)
            self.assertIn(problem, self.refused(*arguments))

    def test_figures_of_the_hardware_database(self):
        models = {
            UUIDS[0]: io_model.Model(1, 2, 3, 4, 5, 6, 7, source='hwdb'),
            UUIDS[1]: io_model.Model(8, 2, 3, 9, 5, 6, 7, source='hwdb'),
        }
        found = self.patch(
            hwdb, 'read_model', side_effect=lambda disk: models[disk.uuid]
        )
        arguments = (*UUIDS, '--from-hwdb')
        status, output, _ = self.run_measure(*arguments, '--format', 'json')
        self.assertEqual((0, models), (status, self.saved))
        self.assertEqual('hwdb', json.loads(output)[1]['source'])
        self.assertEqual(([], []), (self.space, self.plain))
        # all disks or none
        self.saved.clear()
        found.side_effect = [models[UUIDS[0]], exception.DiskError('none')]
        self.refused(*arguments)
        status, _, said = self.run_measure(*arguments, '--like', 'x')
        self.assertEqual(2, status)
        self.assertIn('not allowed with argument --from-hwdb', said)

    def test_a_queue_that_others_share(self):
        self.exclusive.side_effect = exception.DiskError('sdx is shared')
        status, _, said = self.run_measure(UUIDS[0])
        self.assertEqual((0, []), (status, self.plain))
        self.assertIn('measured as it is: sdx is shared', said)
        self.assertEqual('', self.saved[UUIDS[0]].scheduler)

    def test_interrupted(self):
        FakeFio.fails_after = 5
        status, output, said = self.run_measure(*UUIDS)
        self.assertEqual(130, status)
        self.assertEqual('', output)
        self.assertIn('the space of the disk is free again', said)
        self.assertEqual([], self.space)
        self.assertEqual({}, self.saved)


class SizeTestCase(testtools.TestCase):
    def disk(self, free_gb, total_gb=100, held=()):
        return dataclasses.replace(
            fake_disks.make_disk(UUIDS[0], total_gb, held=held),
            free_bytes=free_gb * GIB,
        )

    def test_default(self):
        self.assertEqual(8192, measure.size_mib(self.disk(100), None))
        self.assertEqual(2048, measure.size_mib(self.disk(8), None))

    def test_asked_for(self):
        self.assertEqual(8192, measure.size_mib(self.disk(8), 8192))
        error = self.assertRaises(
            exception.DiskError, measure.size_mib, self.disk(8), 8193
        )
        self.assertIn('has 8192 MiB free', str(error))
        disk = dataclasses.replace(self.disk(1), free_bytes=255 << 20)
        self.assertRaises(exception.DiskError, measure.size_mib, disk, None)
        self.assertEqual(64, measure.size_mib(disk, 64))

    def test_what_vdisks_may_come_to_need_is_not_free(self):
        # they share blocks
        disk = self.disk(90, held=[fake_disks.make_vdisk('v', 's', 96)])
        self.assertEqual(1024, measure.size_mib(disk, None))
