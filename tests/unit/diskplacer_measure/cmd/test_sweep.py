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
import io
import json
import os
import re
import signal
import types
from unittest import mock

import ddt
import fixtures
import testtools
from oslo_config import cfg

from diskplacer_measure.cmd import sweep
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import run
from nova_diskplacer import exception
from nova_diskplacer.cmd import cloud
from nova_diskplacer.host import commands
from nova_diskplacer.host import files
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.placement import client as placement_client
from tests import configured
from tests.fakes import disks as fake_disks
from tests.unit.diskplacer_measure.sweep import samples
from tests.unit.diskplacer_measure.sweep import world

# One cell in each operation on bare metal, in a server, and in two servers;
# of two repetitions.
CELLS = 6
BOOTS = 4


class SweepTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.conf = self.useFixture(configured.Options()).conf
        self.conf.register_opt(cfg.StrOpt('host'))
        self.conf.set_override('host', 'compute1')
        self.conf.set_override('nova_conf', [], 'diskplacer_agent')
        self.world = self.useFixture(world.World())
        self.results = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'results'
        )
        for target, name, value in (
            (os, 'geteuid', lambda: 0),
            (signal, 'signal', lambda *args: None),
            (cloud, 'connection', lambda args: self.world),
            (commands, 'run', lambda *args: 'fio-3.33\n'),
            (libvirt_connection, 'import_libvirt', lambda: None),
            (
                placement_client.PlacementClient,
                'from_conf',
                lambda conf: self.world.placement,
            ),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def sweep(self, command, *arguments, quick=True):
        """Run a command; returns its status, output and error output."""
        parser = argparse.ArgumentParser()
        sweep.register(parser.add_subparsers())
        args = parser.parse_args(
            ['sweep', command, samples.DISK, *arguments]
            + (['--quick'] if quick else [])
        )
        with (
            contextlib.redirect_stdout(io.StringIO()) as out,
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            status = args.handler(self.conf, args)
        return status, out.getvalue(), said.getvalue()

    def measure(self, *arguments):
        return self.sweep(
            'run', f'--results={self.results}', '--image=image', *arguments
        )

    def read(self):
        return results.read(self.results)

    def error(self, *arguments):
        error = self.assertRaises(
            exception.DiskPlacerError, self.measure, *arguments
        )
        self.assertEqual({}, self.world.leftovers())
        return str(error)


class RunTest(SweepTestCase):
    def test_every_cell_is_measured(self):
        status, out, said = self.measure()
        self.assertEqual((0, ''), (status, out))
        found = self.read()
        self.assertEqual(CELLS, len(found.header.plan))
        self.assertEqual(
            {
                (cell, repetition)
                for cell in found.header.plan
                for repetition in range(2)
            },
            {(one.cell, one.repetition) for one in found.results},
        )
        self.assertEqual({''}, {one.problem for one in found.results})
        self.assertEqual({}, self.world.leftovers())
        self.assertIn(f'{2 * CELLS} of {2 * CELLS}: ', said)
        self.assertIn('2 servers, 1 vCPU, 1 GiB', said)

    def test_what_a_server_measured(self):
        self.measure('--scenario', 'servers', '--repetitions', '1')
        for one in self.read().results:
            # two servers of one thread each, 10 MiB in 3 s
            self.assertEqual(3.0, one.seconds)
            self.assertAlmostEqual(2 * 10.48576 / 3, one.mbps)
            self.assertEqual(2, len(one.rates))
            self.assertAlmostEqual(10.48576 / 3, one.rates[0])
            self.assertEqual(1.5, one.latency_ms)
            self.assertAlmostEqual(0.2, one.serving)
            self.assertAlmostEqual(0.8, one.waiting)
            self.assertEqual(200.0, one.context_switches)
            self.assertEqual(0.8, one.cpu['idle'])
            self.assertAlmostEqual(0.1, one.host_cpu['user'], 2)

    def test_what_bare_metal_measured(self):
        self.measure('--scenario', 'bare', '--repetitions', '1')
        for one in self.read().results:
            # two threads, 20 MiB each, in 3 s
            self.assertAlmostEqual(2 * 20.97152 / 3, one.mbps)
            self.assertEqual(one.cpu, one.host_cpu)
        # no API of the cloud was needed
        self.assertEqual([], self.world.requests)
        self.assertEqual('', self.read().header.nova)

    def test_the_queue_is_that_of_each_cell(self):
        self.measure(
            '--scenario', 'bare', '--engine', 'sync_cached', 'async',
            '--host-scheduler', 'bfq', 'mq-deadline',
            '--read-ahead-kb', '256', '4096', '--repetitions', '1',
        )  # fmt: skip
        found = {
            (cell[2], cell[3], queue['scheduler'], queue['read_ahead_kb'])
            for cell, queue in self.world.bare
        }
        self.assertEqual(
            {
                ('sync_cached', 'read', 'bfq', '256'),
                ('sync_cached', 'read', 'bfq', '4096'),
                ('sync_cached', 'write', 'bfq', '256'),
            }
            | {
                ('async', operation, scheduler, '256')
                for operation in ('read', 'write')
                for scheduler in ('bfq', 'mq-deadline')
            },
            found,
        )
        self.assertEqual({}, self.world.leftovers())

    def test_servers_are_requested(self):
        self.measure('--volume-type', 'local')
        self.assertEqual(2 * (1 + 2), len(self.world.requests))
        run_id = self.read().header.id
        for request in self.world.requests:
            self.assertEqual('compute1', request['host'])
            self.assertTrue(
                request['name'].startswith(f'diskplacer-sweep-{run_id}-')
            )
            self.assertEqual('none', request['networks'])
            root, vdisk = request['block_device_mapping']
            self.assertEqual('image', root['source_type'])
            self.assertEqual(
                ('blank', 'local', 1, True),
                (
                    vdisk['source_type'],
                    vdisk['volume_type'],
                    vdisk['volume_size'],
                    vdisk['delete_on_termination'],
                ),
            )

    def test_other_servers_on_the_host(self):
        self.assertNotIn('Other servers', self.measure()[2])
        other = types.SimpleNamespace(name='etl-1')
        self.world.compute.others = [other]
        # a run is continued, and finds nothing to do
        self.assertIn('Other servers on this host: 1.', self.measure()[2])

    def test_other_servers_are_kept_away(self):
        seen = []
        place = self.world.place

        def look(server, size_gb):
            seen.append(dict(self.world.placement.claims))
            place(server, size_gb)

        self.world.place = look
        self.measure('--scenario', 'servers', '--repetitions', '1')
        # room for twice two vdisks on the measured disk, none on the other
        run_id = self.read().header.id
        self.assertEqual(
            {samples.DISK: {'CUSTOM_VDISK_GB': 36}}
            | {world.OTHER: {'CUSTOM_VDISK_GB': 40}},
            seen[0][run_id],
        )

    def test_a_cpu_bound_cell(self):
        self.world.guest_cpu = '50,46,2,2,0'
        status, _, _ = self.measure('--scenario', 'server')
        self.assertEqual(0, status)
        found = self.read().results
        self.assertEqual({outcome.CPU_BOUND}, {one.problem for one in found})
        # to repeat it would not help
        self.assertEqual(2, len(self.world.requests))


@ddt.ddt
class RepeatTest(SweepTestCase):
    def measure_server(self):
        return self.measure('--scenario', 'server', '--repetitions', '1')

    def problems(self):
        return {one.problem for one in self.read().results}

    def test_a_cell_that_overran_has_more_time(self):
        self.world.seconds = {'0.0': 9}
        status, _, said = self.measure_server()
        self.assertEqual(0, status)
        self.assertIn('overran its time', said)
        self.assertEqual({''}, self.problems())
        self.assertGreater(len(self.world.requests), 1)

    def test_the_host_is_late(self):
        delays = [5]

        def drop(disk):
            if delays:
                self.world.sleep(delays.pop())

        with mock.patch(
            'diskplacer_measure.sweep.measure.measured_disk.MeasuredDisk.drop_caches',
            drop,
        ):
            status, _, said = self.measure_server()
        self.assertEqual(0, status)
        self.assertEqual(1, said.count('the host changed its queue too late'))
        self.assertEqual({''}, self.problems())
        self.assertEqual(2, len(self.world.requests))

    def test_a_cell_that_never_works(self):
        self.world.failing = ('0.0',)
        status, _, said = self.measure_server()
        self.assertEqual(3, status)
        self.assertIn('1 results do not count', said)
        self.assertEqual(run.ATTEMPTS, len(self.world.requests))
        self.assertEqual({}, self.world.leftovers())
        # the next run repeats it
        self.world.failing = ()
        self.assertEqual(0, self.measure_server()[0])
        self.assertEqual({''}, self.problems())

    def test_a_server_that_boots_late(self):
        request = self.world.compute.create_server

        def slower(**values):
            server = request(**values)
            self.world.boot_seconds = 60
            return server

        self.world.boot_seconds = 5
        with mock.patch.object(self.world.compute, 'create_server', slower):
            status, _, said = self.measure('--scenario', 'server')
        self.assertEqual(0, status)
        self.assertIn('1 of 1 servers booted late', said)
        self.assertEqual({''}, self.problems())

    def test_the_first_servers_boot_late(self):
        self.world.boot_seconds = 250
        status, _, said = self.measure('--scenario', 'server')
        self.assertEqual(0, status)
        # both cells of the first boot; later ones have the time that it took
        self.assertEqual(2, said.count('servers booted late'))
        self.assertEqual({''}, self.problems())

    @ddt.data(-60, 60)
    def test_a_server_s_clock_differs(self, skew):
        self.world.clock_skew = skew
        status, _, said = self.measure_server()
        self.assertEqual(3, status)
        self.assertIn('the clock of server', said)
        (shown,) = set(re.findall(r'by about (\S+) s', said))
        self.assertAlmostEqual(skew, int(shown), delta=4)
        self.assertEqual({}, self.world.leftovers())


@ddt.ddt
class KilledTest(SweepTestCase):
    def steps(self, *arguments):
        self.measure(*arguments)
        os.unlink(self.results)
        return len(self.world.steps)

    def kill(self, step, *arguments):
        self.world.steps = []
        self.world.kill_at = step
        self.assertRaises(world.Killed, self.measure, *arguments)
        self.world.kill_at, self.world.dead = None, False

    def test_at_every_step(self):
        # one of each scenario
        arguments = ('--repetitions', '1')
        for step in range(self.steps(*arguments)):
            self.kill(step, *arguments)
            before = ()
            if os.path.exists(self.results):
                before = self.read().results
            measured = len(self.world.bare)
            self.assertEqual(0, self.measure(*arguments)[0], step)
            self.assertEqual({}, self.world.leftovers(), step)
            found = self.read().results
            self.assertEqual(CELLS, len(found), step)
            self.assertEqual(before, found[: len(before)], step)
            # what has a result is not measured again
            bare = [one for one in before if not one.cell.servers]
            self.assertEqual(
                2 - len(bare), len(self.world.bare) - measured, step
            )
            os.unlink(self.results)

    # 60 cells, read after 25, after 50 and in the end
    long_boot = (
        '--scenario', 'server', '--repetitions', '1',
        '--depth', *map(str, range(1, 31)),
    )  # fmt: skip

    def test_a_console_keeps_its_last_lines(self):
        console = world.Server.console
        with mock.patch.object(
            world.Server, 'console', lambda server: console(server)[-15000:]
        ):
            self.assertEqual(0, self.measure(*self.long_boot)[0])
        self.assertEqual({''}, {one.problem for one in self.read().results})
        self.assertEqual(1, len(self.world.requests))

    def test_results_are_saved_in_the_pauses_of_a_long_boot(self):
        saved = []
        sleep = self.world.sleep

        def look_and_sleep(seconds):
            found = len(self.read().results)
            if found not in saved:
                saved.append(found)
            sleep(seconds)

        with fixtures.MonkeyPatch('time.sleep', look_and_sleep):
            self.assertEqual(0, self.measure(*self.long_boot)[0])
        self.assertEqual([0, 25, 50], saved)
        self.assertEqual(60, len(self.read().results))
        self.assertEqual(1, len(self.world.requests))

    def test_while_leftovers_are_removed(self):
        arguments = ('--scenario', 'servers', '--repetitions', '1')
        booted = self.steps(*arguments) // 2
        for step in range(8):
            self.kill(booted, *arguments)
            self.kill(step, *arguments)
            self.measure(*arguments)
            self.assertEqual({}, self.world.leftovers(), step)
            os.unlink(self.results)

    def test_a_volume_that_nova_leaves(self):
        arguments = ('--scenario', 'server', '--repetitions', '1')
        unplace = self.world.unplace

        def leave_volume(server):
            volumes = dict(self.world.volumes)
            unplace(server)
            self.world.volumes = volumes
            for volume in volumes.values():
                volume.status = 'available'

        self.world.unplace = leave_volume
        # of somebody else
        self.world.volumes['1'] = mock.Mock(id='1', status='available')
        self.measure(*arguments)
        self.assertEqual(['1'], list(self.world.volumes))
        os.unlink(self.results)
        # killed after the servers are deleted
        self.kill(self.world.steps.index('delete a volume'), *arguments)
        self.assertEqual(2, len(self.world.volumes))
        self.measure(*arguments)
        self.assertEqual(['1'], list(self.world.volumes))

    def test_ctrl_c(self):
        with mock.patch.object(
            self.world.compute,
            'get_server_console_output',
            side_effect=KeyboardInterrupt,
        ):
            status, _, said = self.measure('--scenario', 'servers')
        self.assertEqual(130, status)
        self.assertIn('the same command continues', said)
        self.assertEqual({}, self.world.leftovers())

    def test_a_signal(self):
        with mock.patch.object(
            self.world.compute,
            'get_server_console_output',
            side_effect=SystemExit(143),
        ):
            self.assertRaises(
                SystemExit, self.measure, '--scenario', 'servers'
            )
        self.assertEqual({}, self.world.leftovers())

    @ddt.data(
        (('--mib', '128'), '--mib was 64, is 128'),
        (('--seconds', '4'), '--seconds was 3, is 4'),
        (('--repetitions', '3'), '--repetitions was 2, is 3'),
        (('--jobs', '2', '4'), '--jobs was 1 2, is 1 2 4'),
        (('--host-scheduler', 'bfq'), '--host-scheduler was none, is bfq'),
        (('--shape', '2:1024'), '--shape was 0 1, is 0 2'),
    )
    @ddt.unpack
    def test_other_options(self, arguments, message):
        self.kill(20)
        error = self.assertRaises(
            exception.DiskPlacerError, self.measure, *arguments
        )
        self.assertIn(message, str(error))
        self.assertIn(self.results, str(error))
        self.assertEqual(0, self.measure()[0])

    def test_another_version(self):
        self.kill(20)
        kernel = os.uname()
        upgraded = mock.Mock(wraps=kernel, release='7.0.1')
        with mock.patch.object(os, 'uname', return_value=upgraded):
            error = self.assertRaises(exception.DiskPlacerError, self.measure)
        self.assertIn(f'kernel was {kernel.release}, is 7.0.1', str(error))
        self.assertEqual(0, self.measure()[0])


@ddt.ddt
class ErrorsTest(SweepTestCase):
    def test_without_root(self):
        with mock.patch.object(os, 'geteuid', return_value=1000):
            self.assertIn('needs root', self.error())

    def test_weighed_servers(self):
        self.conf.set_override('mode', 'on', 'diskplacer_weights')
        self.assertIn(
            'set it to off or dry_run', self.error('--scenario', 'server')
        )
        # bare metal is in the cgroup that has no weight
        self.assertEqual(0, self.measure('--scenario', 'bare')[0])

    def test_a_disk_with_vdisks(self):
        vdisk = fake_disks.make_vdisk('1', 'a-server', 1)
        self.world.vdisks[samples.DISK] = [vdisk]
        error = self.assertRaises(exception.DiskPlacerError, self.measure)
        self.assertIn('has vdisks, volume-1', str(error))
        self.assertFalse(os.path.exists(self.results))
        self.assertEqual([], self.world.requests)

    def test_a_vdisk_that_comes_later(self):
        vdisk = fake_disks.make_vdisk('1', 'a-server', 1)
        place = self.world.place

        def place_both(server, size_gb):
            place(server, size_gb)
            self.world.vdisks[samples.DISK].append(vdisk)

        self.world.place = place_both
        error = self.assertRaises(
            exception.DiskPlacerError, self.measure, '--scenario', 'server'
        )
        self.assertIn('is in use: vdisk volume-1', str(error))
        self.assertEqual({'vdisks': 1}, self.world.leftovers())

    def test_a_vdisk_on_another_disk(self):
        place = self.world.place

        def place_elsewhere(server, size_gb):
            place(server, size_gb)
            measured, other = samples.DISK, world.OTHER
            vdisks = self.world.vdisks
            vdisks[measured], vdisks[other] = vdisks[other], vdisks[measured]

        self.world.place = place_elsewhere
        self.assertIn(
            f'is on disk {world.OTHER}', self.error('--scenario', 'server')
        )

    @ddt.data(
        (f'measure-{samples.DISK}', 'is being measured already'),
        ('sweep', 'another diskplacer-manage sweep run'),
    )
    @ddt.unpack
    def test_measured_already(self, lock, message):
        with files.lock(lock, wait=False):
            self.assertIn(message, self.error())

    def test_too_little_room(self):
        error = self.error('--mib', '81920')
        self.assertIn('40 GiB free, 80 GiB are measured: --mib', error)

    def test_too_little_room_in_placement(self):
        self.world.placement.claims['a-server'] = {
            samples.DISK: {placement_client.GB: 40}
        }
        error = self.assertRaises(exception.DiskPlacerError, self.measure)
        self.assertIn(
            'has 0 GiB free in Placement, 2 GiB are measured', str(error)
        )
        self.assertEqual(['a-server'], list(self.world.placement.claims))

    def test_a_server_that_cannot_be_built(self):
        self.world.place = lambda server, size_gb: setattr(
            self.world, 'build_error', 'No valid host was found'
        )
        error = self.error('--scenario', 'server')
        self.assertIn('cannot be built: No valid host was found', error)

    def test_a_server_that_never_boots(self):
        self.world.boot_seconds = 10**6
        error = self.error('--scenario', 'server', '--boot-timeout', '60')
        self.assertIn('--boot-timeout is more', error)
        self.assertIn('kernel: still booting', error)

    def test_an_image_without_fio(self):
        self.world.image_error = 'fio is not installed'
        error = self.error('--scenario', 'server')
        self.assertIn('cannot measure: fio is not installed', error)

    def answer_on_bare_metal(self, text):
        """Have the script print this, and something on its error output."""

        def answer(command, cgroup, script):
            token = re.search("^token='?([^'\n]*)", script, re.M)[1]
            printed = text.format(token=token)
            return mock.Mock(stdout=printed, stderr='sh: a\nproblem\n')

        patch = mock.patch('nova_diskplacer.disks.measure.fio.run', answer)
        patch.start()
        self.addCleanup(patch.stop)

    def test_a_host_without_awk(self):
        self.answer_on_bare_metal('sweep {token} error awk is not installed\n')
        self.assertEqual(
            'bare metal: awk is not installed',
            self.error('--scenario', 'bare'),
        )

    @ddt.data(
        ('sweep {token} failed {token} fio: no libaio\n', 'fio: no libaio'),
        ('', 'nothing is reported: sh: a problem'),
    )
    @ddt.unpack
    def test_bare_metal_fails(self, text, problem):
        self.answer_on_bare_metal(text)
        status, _, said = self.measure('--scenario', 'bare')
        self.assertEqual(3, status)
        self.assertIn(problem, said)
        self.assertEqual(
            {problem}, {one.problem for one in self.read().results}
        )
        self.assertEqual({}, self.world.leftovers())

    def test_no_image(self):
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.sweep,
            'run',
            f'--results={self.results}',
        )
        self.assertIn('--image is missing', str(error))

    def test_somebody_changes_the_scheduler(self):
        console = world.Server.console

        def change(server):
            self.world.kernel.queues[world.DEVICE]['scheduler'] = 'kyber'
            return console(server)

        # nobody reads a console while cells are measured
        with mock.patch.object(world.Server, 'console', change):
            self.measure('--scenario', 'server')
        sleep = self.world.sleep

        def change_and_sleep(seconds):
            self.world.kernel.queues[world.DEVICE]['scheduler'] = 'kyber'
            sleep(seconds)

        os.unlink(self.results)
        with fixtures.MonkeyPatch('time.sleep', change_and_sleep):
            error = self.error('--scenario', 'server')
        self.assertIn('scheduler kyber, not none: something else', error)

    @ddt.data(
        (('--host-scheduler', 'cfq'), '--host-scheduler cfq is not one of'),
        (('--shape', '8:1024'), '--shape 8:1024 does not fit'),
        (('--shape', '1:8192'), '--shape 1:8192 does not fit'),
        (('--jobs', '100', '--mib', '64'), '--mib 64 is too little'),
        (('--jobs', '64'), '--jobs 64 has no number of 2 or more servers'),
        (('--jobs', '1'), '--jobs 1 has no number of 2 or more servers'),
    )
    @ddt.unpack
    def test_options(self, arguments, message):
        self.assertIn(message, self.error(*arguments))
        self.assertFalse(os.path.exists(self.results))

    @ddt.data(
        ('--guest-scheduler', 'none; reboot'),
        ('--guest-scheduler', 'a\nb'),
        ('--jobs', '129'),
        ('--jobs', '0'),
    )
    def test_malformed_options(self, arguments):
        self.assertRaises(SystemExit, self.measure, *arguments)

    def test_half_a_header(self):
        with open(self.results, 'w') as stream:
            stream.write('{"kind": "run", "vers')
        self.assertIn('line 1: there is no header', self.error())


class PlanTest(SweepTestCase):
    def test_servers_that_do_not_fit(self):
        _, out, _ = self.sweep(
            'plan', '--jobs', '1', '2', '7', '8', '--format', 'json'
        )
        found = {
            (cell['servers'], cell['jobs'])
            for cell in json.loads(out)['cells']
        }
        self.assertEqual(
            {(0, 1), (0, 2), (0, 7), (0, 8)}
            | {(1, 1), (1, 2), (1, 7), (1, 8)}
            | {(2, 1), (7, 1)},
            found,
        )

    def test_default_shapes_that_fit(self):
        _, out, _ = self.sweep(
            'plan', '--format', 'json', '--mib', '4096', quick=False
        )
        found = {
            (cell['vcpus'], cell['ram_mib'])
            for cell in json.loads(out)['cells']
        }
        self.assertEqual({(0, 0), (1, 1024), (2, 4096)}, found)

    def test_a_table(self):
        status, out, _ = self.sweep('plan')
        self.assertEqual(0, status)
        self.assertIn('Bare metal', out)
        self.assertIn('One server, 1 vCPU, 1 GiB', out)
        self.assertIn(
            f'{CELLS} cells, 2 repetitions, {BOOTS} boots of servers', out
        )
        self.assertEqual([], self.world.steps)

    def test_json(self):
        _, out, _ = self.sweep('plan', '--format', 'json')
        shown = json.loads(out)
        self.assertEqual((CELLS, BOOTS), (len(shown['cells']), shown['boots']))
        self.measure()
        self.assertEqual(
            [vars(cell) for cell in self.read().header.plan], shown['cells']
        )

    def test_the_time_is_about_right(self):
        _, out, _ = self.sweep('plan', '--format', 'json')
        began = self.world.time()
        self.measure()
        taken = self.world.time() - began
        self.assertTrue(
            0.5 * taken < json.loads(out)['seconds'] < 2 * taken, taken
        )
