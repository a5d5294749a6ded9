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

"""The data of a server follows it, with Cinder's own code and database.

QEMU is a stand-in that has files open, and writes to two while it copies.
"""

import contextlib
import itertools
import os
import threading

import fixtures
from cinder import objects
from oslo_db import exception as db_exc

from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote as sessions
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import settler
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote
from nova_diskplacer.disks import settling
from tests.functional.cinder import moves_base
from tests.functional.cinder.moves_base import Killed

THERE = moves_base.THERE
PART = 1 << 20


class QEMU:
    """A server that may run, with its disk open, and copies it."""

    def __init__(self, backend):
        self.backend = backend
        self.paths = []

    def boot(self, link):
        self.quit()
        self.paths = [os.path.realpath(link)]
        self._tell()

    def quit(self):
        self.paths = []
        self._tell()

    def write(self, text):
        for path in self.paths:
            with open(path, 'r+b') as stream:
                stream.write(text)

    def has_open(self, path):
        return os.path.realpath(path) in self.paths

    def _tell(self):
        """Have the backend know what is open."""
        root = self.backend.disk_root
        self.backend.open = {
            (path.split('/')[-3], os.path.basename(path))
            for path in self.paths
            if path.startswith(root)
        }

    # vdisk_steps.GuestDisk

    def job(self):
        if len(self.paths) < 2:
            return None
        return vdisk_steps.Job(self.paths[1], PART, PART, True)

    def start(self, path):
        self.paths.append(path)
        self._tell()
        with open(self.paths[0], 'rb') as stream:
            text = stream.read(PART)
        with open(path, 'r+b') as stream:
            stream.write(text)

    def pivot(self):
        del self.paths[0]
        self._tell()

    def abort(self):
        if len(self.paths) < 2:
            return False
        del self.paths[1]
        self._tell()
        return True


class SettlingTestCase(moves_base.MoveTestCase):
    """A server that has moved from host1 to host2, and its data has not."""

    def setUp(self):
        super().setUp()
        backend = self.there.backend
        self.qemu = QEMU(backend)
        operations = Operations(backend, self.placement)
        self.destination = Destination('host2@vdisk', operations, 'any')
        for target, name, value in (
            (guests.Guests, 'find', lambda *_: self.guest()),
            (vdisk_steps, '_INTERVAL', 0.0),
            (remote, 'in_use', self.qemu.has_open),
            (remote, 'size_bytes', self.size_bytes),
            (remote, 'check_there', self.check_there),
            (
                remote,
                'writes',
                lambda path: str(os.stat(path).st_mtime_ns),
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(
                f'{target.__module__}.{target.__name__}.{name}'
                if isinstance(target, type)
                else f'{target.__name__}.{name}',
                value,
            ))  # fmt: skip
        backend.copy_remote = self.copy_remote

    def guest(self):
        return self.qemu if self.qemu.paths else None

    def check_there(self, device):
        if not os.path.exists(device):
            raise remote.Away('away')

    def size_bytes(self, device):
        self.check_there(device)
        return os.path.getsize(device)

    def copy_remote(self, disk, name, start):
        device = remote.path(self.there.root, name)
        self.check_there(device)
        with open(device, 'rb') as stream:
            text = stream.read(PART)
        path = self.there.backend.device_path(disk, name)
        with open(path, 'r+b') as stream:
            stream.write(text)
        return None

    def move(self):
        return settle_move.SettleMove(
            self.destination,
            guests.Guests('', 0),
            self.volume_['id'],
            self.name,
            self.server_id,
            self.target,
            lambda done, total: None,
            lambda: False,
        )

    def settle(self):
        settle_attempt.settle(self.move())

    def migrated(self, runs=True):
        self.second = self.migrate()
        if runs:
            self.qemu.boot(self.link_there)
            self.qemu.write(b'two')
        self.here.publish()

    def assertSettled(self, content=b'two'):
        self.assertIsNone(self.phase)
        row = self.row
        self.assertEqual(THERE, row.host)
        self.assertEqual(
            (self.target, self.target, None),
            (row.provider_location, row.provider_id, row.provider_auth),
        )
        service = objects.Service.get_by_uuid(self.context, row.service_uuid)
        self.assertEqual('host2@vdisk', service.host)
        self.assertEqual('in-use', row.status)
        self.assertEqual({}, self.network.targets)
        self.assertEqual(set(), self.network.sessions)
        self.assertEqual([], self.there.backend.remotes())
        self.assertEqual({}, self.held(self.here))
        self.assertFalse(os.path.lexists(self.path))
        self.assertEqual({self.target: self.server_id}, self.held(self.there))
        self.assertEqual(
            self.there.backend.device_path(self.target, self.name),
            os.path.realpath(self.link_there),
        )
        self.assertEqual(content, self.content(self.link_there))
        for host in (self.here, self.there):
            host.publish()
            self.assertEqual(0, sum(host.reserved().values()))

    def killing(self):
        """Patch all that changes something to count, and to be killed."""
        self.steps, self.fatal = 0, None

        def step():
            self.steps += 1
            if self.steps == self.fatal:
                raise Killed

        def watched(function):
            def watching(*args, **kwargs):
                step()
                result = function(*args, **kwargs)
                step()
                return result

            return watching

        for target, name in (
            (store, 'advance'),
            (store, 'forget'),
            (Destination, 'save'),
            (sessions, 'log_out'),
            (other_host, 'go_on'),
            (links, 'link'),
            (links, 'link_remote'),
            (self.qemu, 'start'),
            (self.qemu, 'pivot'),
            (self.qemu, 'abort'),
        ):
            self.useFixture(
                fixtures.MockPatchObject(
                    target, name, watched(getattr(target, name))
                )
            )


class SettleTestCase(SettlingTestCase):
    def test_a_server_that_runs(self):
        self.migrated()
        self.settle()
        self.assertSettled()
        self.qemu.write(b'six')
        self.assertEqual(b'six', self.content(self.link_there))
        # its host is its home now: a detachment and the deletion are plain
        self.qemu.quit()
        self.delete_attachment(self.second)
        self.assertEqual('available', self.row.status)
        self.assertEqual(THERE, self.row.host)

    def test_a_server_that_is_stopped(self):
        self.migrated(False)
        self.settle()
        self.assertSettled(b'one')

    def attempt(self, whole):
        """Find the volume locked by another request after the copy."""
        move = self.move()
        move.whole = whole
        locked, times = move.locked, itertools.count(1)

        def lock():
            # the beginning and the check of the target come before
            if next(times) == 3:
                raise settle_move.Busy('busy')
            return locked()

        move.locked = lock
        self.assertRaises(settle_move.Busy, settle_attempt.settle, move)
        return move.whole

    def test_another_request_comes_between_copy_and_decision(self):
        """What was copied is whole still, or is copied once more."""
        self.migrated(False)
        copy, copies = self.copy_remote, []

        def counted(*arguments):
            copies.append(arguments)
            return copy(*arguments)

        def write(path, text):
            with open(path, 'r+b') as stream:
                stream.write(text)

        def leave_again():
            for phase in (record.ATTACHED, record.LEFT):
                store.advance(
                    self.volume_['id'], store.read(self.volume_['id']), phase
                )

        self.there.backend.copy_remote = counted
        source = f'{self.here.root}/{self.source}/vdisks/{self.name}'
        target = self.there.backend.device_path(self.target, self.name)
        whole = ''
        for change, count in (
            (lambda: None, 1),
            (lambda: None, 1),
            # a server was started, and stopped again
            (lambda: write(source, b'new'), 2),
            (lambda: write(target, b'bad'), 3),
            (leave_again, 4),
        ):
            change()
            whole = self.attempt(whole)
            self.assertEqual(count, len(copies))
        move = self.move()
        move.whole = whole
        settle_attempt.settle(move)
        self.assertEqual(4, len(copies))
        self.assertSettled(b'new')

    def test_killed_at_each_step_of_one_move(self):
        self.migrated()
        self.killing()
        for self.fatal in itertools.count(1):
            self.steps = 0
            with contextlib.suppress(Killed, at_rest.Waits):
                self.settle()
                break
            if self.phase is None:
                break
        self.assertLess(5, self.fatal)
        self.assertSettled()

    def test_killed_and_rebooted_and_cinder_volume_starts(self):
        """At a step each, of moves of a server that is stopped later."""
        self.migrated()
        self.killing()
        for self.fatal in (3, 5, 4):
            self.steps = 0
            with contextlib.suppress(Killed):
                self.settle()
            self.kill(1)
            self.volume[1] = self.restart('host2')
            self.qemu.boot(self.link_there)
            self.assertEqual(b'two', self.content(self.link_there))
        self.qemu.quit()
        self.fatal = None
        if self.phase:
            self.settle()
        self.assertSettled()

    def test_the_database_fails_at_the_save(self):
        self.migrated()
        for before in (True, False):
            real = objects.Volume.save

            def save(volume, before=before, real=real):
                if not before:
                    real(volume)
                raise db_exc.DBError('away')

            with fixtures.MonkeyPatch('cinder.objects.Volume.save', save):
                self.assertRaises(exception.DiskError, self.settle)
            # both have all data
            self.assertEqual(b'two', self.content(self.link_there))
        self.settle()
        self.assertSettled()

    def test_the_source_is_down(self):
        self.migrated()
        self.kill(0)
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.objects.Service.is_up', property(lambda *_: False)
            )
        )
        self.settle()
        self.assertEqual(record.RELEASING, self.phase)
        self.assertEqual(THERE, self.row.host)
        self.assertEqual(set(), self.network.sessions)
        self.volume[0] = self.restart('host1')
        self.settle()
        self.useFixture(
            fixtures.MonkeyPatch(
                'cinder.objects.Service.is_up', property(lambda *_: True)
            )
        )
        if self.phase:
            self.settle()
        self.assertSettled()

    def test_the_source_is_away_while_it_is_copied(self):
        self.migrated(False)
        os.unlink(remote.path(self.there.root, self.name))
        targets = dict(self.network.targets)
        self.network.targets.clear()
        self.assertRaises(remote.Away, self.settle)
        self.assertEqual(record.LEFT, self.phase)
        # it logs in again
        self.network.targets.update(targets)
        self.settle()
        self.assertSettled(b'one')


class ColdMigrationTestCase(SettlingTestCase):
    def test_not_before_it_is_confirmed(self):
        self.claim_there()
        empty = self.reserve(self.volume_, self.server_id)
        self.delete_attachment(self.first)
        self.is_on('host2', 'resize_finish')
        self.connect(empty, 'host2')
        self.complete(empty)
        self.assertRaises(at_rest.Waits, self.settle)
        self.is_on('host2')
        self.nova.servers[self.server_id]['status'] = 'VERIFY_RESIZE'
        self.assertRaises(at_rest.Waits, self.settle)
        self.assertEqual(record.ATTACHED, self.phase)
        # it is confirmed, and its claim at the source goes
        self.nova.servers[self.server_id]['status'] = 'ACTIVE'
        self.placement._call('delete', f'/allocations/{self.migration}')
        self.settle()
        self.assertSettled(b'one')


class SettlerTestCase(SettlingTestCase):
    def settler(self):
        return settler.Settler(
            {'host2@vdisk': self.destination},
            '',
            settler.Limits(parallel=2),
            threading.Event(),
        )

    def look(self, service):
        """Look once, and wait for what is begun."""
        with settler.concurrent.futures.ThreadPoolExecutor(2) as pool:
            service.look(pool)

    def state(self):
        return settling.FILE.read(self.there.root).vdisks

    def test_all_that_is_due(self):
        service = self.settler()
        self.look(service)
        self.assertEqual((), self.state())
        self.migrated()
        self.look(service)
        (vdisk,) = self.state()
        self.assertEqual(
            (self.volume_['id'], 'host1', self.target),
            (vdisk.volume, vdisk.source, vdisk.disk),
        )
        self.assertSettled()
        self.look(service)
        self.assertEqual((), self.state())

    def test_what_fails_is_logged_once(self):
        self.migrated()
        service = self.settler()
        self.there.backend.known[self.target] = settler.dataclasses.replace(
            self.there.backend.known[self.target], health='failed'
        )
        for _ in range(3):
            service._due.clear()
            self.look(service)
        self.look(service)
        (vdisk,) = self.state()
        self.assertEqual(settling.FAILED, vdisk.state)
        self.assertIn('failed', vdisk.reason)
        self.assertEqual(record.LEFT, self.phase)
        self.assertEqual(1, self.log.output.count('has not followed'))

    def test_one_for_each_host(self):
        first, second = self.settler(), self.settler()
        first._stopped.wait = lambda _: self.assertRaisesRegex(
            exception.DiskPlacerError, 'only one may', second.run
        )
        first.look = lambda pool: first._stopped.set()
        first._stopped.is_set, looks = (
            lambda: looks.pop(),
            [True, False],
        )
        first.run()
