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

"""A model of all that moves of a vdisk between two disks depend on."""

import contextlib
import types

from cinder_vdisk_mapper.drain import refusals
from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.vdisks import copies
from nova_diskplacer import exception
from nova_diskplacer.disks import move_records
from nova_diskplacer.disks.vdisk import VDisk
from tests.fakes import disks as fake_disks

A, B = 'a', 'b'
OTHER = {A: B, B: A}
NAME = 'volume-1'


class Killed(BaseException):
    """The process that moves a vdisk ends at once."""


class Lost(AssertionError):
    """A server does not find what it has written."""


class World:
    """A server, QEMU, Cinder, and a vdisk that may be on two disks.

    ``written`` counts the server's writes, ``data`` has the last one on each
    disk. ``link`` and ``saved`` are the disks of the link and of Cinder.
    QEMU has the vdisk on disk ``qemu`` open, None if the server is stopped,
    and copies it to the other disk if ``copying``; from ``ready`` on it writes
    to both. While ``parked``, the link leads nowhere but for QEMU; ``denied``
    tells if libvirt has taken from QEMU what it uses. ``dead`` are disks that
    are missing for now. Another process reads the vdisk on the disk ``read``,
    such as a backup of the host.

    ``fatal`` is the step after which the process is killed. ``meanwhile`` is
    called after each step; while the volume is locked, which is for moments,
    one thing may happen at most. ``broken`` tells of each call of Cinder's
    database if it fails, and ``pivots`` how each pivot ends: '' for well,
    'refused', or 'lost' and after how many steps QEMU ends the copy. While
    ``away``, libvirt ends no copy.
    """

    def __init__(self, runs=True, linked=True):
        self.written = 1
        self.data = {A: 1}
        self.writes = {A: 1, B: 0}
        self.link = A if linked or runs else None
        self.saved = A
        self.record = None
        self.copying = self.ready = False
        self.parked = self.denied = False
        self.qemu = None
        self.late = None
        self.dead = set()
        self.read = None
        self.fatal = None
        self.steps = 0
        self.running = self.is_locked = self.happened = False
        self.meanwhile = lambda: None
        self.quiet = False
        self.broken = iter(())
        self.pivots = iter(())
        self.away = False
        if runs:
            self.boot()

    @property
    def place(self):
        return self.link or self.saved

    # the server

    def boot(self):
        if self.place in self.dead:
            return
        self.stop()
        if self.parked:
            # it does not start
            return
        self.denied = False
        self.link = self.qemu = self.place
        if self.data.get(self.qemu) != self.written:
            raise Lost(f'{self.qemu}: {self.data}, written {self.written}')

    def stop(self):
        if self.place in self.dead and self.qemu != self.place:
            # the disk died in the moment between the link and the pivot
            return
        self.qemu = None
        self.lose_copy()

    def write(self):
        if self.qemu is None or self.qemu in self.dead:
            return
        self.written += 1
        for disk in [self.qemu] + [OTHER[self.qemu]] * self.ready:
            self.data[disk] = self.written
            self.writes[disk] += 1

    def lose_copy(self):
        self.copying = self.ready = False
        self.late = None

    def die(self):
        """Have the target of the move be missing."""
        if self.record and not self.dead:
            self.dead = {self.record.target}
            self.lose_copy()

    def revive(self):
        self.dead = set()

    def open_source(self):
        """Have another process read the disk that is drained."""
        if self.record:
            self.read = self.record.source

    def close_source(self):
        self.read = None

    def database(self):
        """Raise the error of Cinder's database that is due, if any."""
        if next(self.broken, False):
            raise exception.DiskError('database')

    # the commands, as Drainer runs them

    def reason(self, disk):
        """Return why the vdisk on a disk stays, and if a move was begun."""
        others = {OTHER[disk]} & self.data.keys() - self.dead
        facts = types.SimpleNamespace(
            disk=disk,
            volume_disk=self.place,
            copies=others,
            recorded_move=self.record,
        )
        begun = self.is_recorded(disk, OTHER[disk]) and bool(others)
        return refusals._copy_reason(facts), begun

    def is_recorded(self, source, target):
        """Tell whether the record is that of a move."""
        return bool(self.record) and self.record.disks == (source, target)

    def drain(self, disk):
        """Move the vdisk from a disk; returns the reason if it stays."""
        if disk in self.dead:
            raise exception.DiskError('missing')
        self.forget_moves(disk)
        if disk not in self.data:
            return ''
        if refusal := self.reason(disk)[0]:
            return refusal
        move = self.move(disk)
        try:
            vdisk_steps.run(move)
        except exception.DiskPlacerError:
            if self.is_recorded(disk, OTHER[disk]):
                with contextlib.suppress(exception.DiskPlacerError):
                    vdisk_steps.take_back(move)
            raise
        return ''

    def cancel(self, disk):
        if disk in self.dead:
            raise exception.DiskError('missing')
        if disk in self.data and self.reason(disk)[1]:
            vdisk_steps.take_back(self.move(disk))
        self.forget_moves(disk)

    def forget_moves(self, disk):
        """Remove the record of a move that has ended."""
        if self.record and self.record.source == disk:
            begun = disk in self.data and (
                self.place != disk or self.reason(disk)[1]
            )
            if not begun:
                self.record = None

    def start_driver(self):
        """Delete copies that moves have left, as cinder-volume does."""
        self.parked = False
        for disk in list(self.data.keys() - self.dead - {self.saved}):
            if not self.is_recorded(self.saved, disk):
                with contextlib.suppress(exception.DiskError):
                    self.condemn(disk)

    def command(self, name, *arguments, fatal=None):
        """Run a command, unless one runs; returns False if it was killed."""
        if self.running:
            raise exception.DiskError('another one runs')
        self.steps, self.fatal, self.running = 0, fatal, True
        try:
            getattr(self, name)(*arguments)
        except Killed:
            return False
        finally:
            self.fatal, self.running = None, False
        return True

    def intrude(self, name, *arguments):
        """Run a command beside another one, as if nothing kept it off."""
        if self.is_locked:
            # it waits
            return
        before = self.fatal, self.meanwhile
        self.fatal, self.meanwhile = None, lambda: None
        try:
            with contextlib.suppress(exception.DiskPlacerError):
                getattr(self, name)(*arguments)
        finally:
            self.fatal, self.meanwhile = before

    # what a move does

    def step(self, *_):
        self.steps += 1
        if self.steps == self.fatal:
            raise Killed
        if self.late is not None:
            self.late -= 1
            if self.late < 0:
                self.conclude()
        if not self.quiet:
            self.meanwhile()
        self.write()

    @contextlib.contextmanager
    def locked(self):
        meanwhile = self.meanwhile

        def once():
            meanwhile()
            self.quiet = self.happened

        self.happened = False
        self.meanwhile, self.is_locked = once, True
        try:
            yield
        finally:
            self.meanwhile, self.quiet = meanwhile, False
            self.is_locked = False

    def create(self, source):
        target = OTHER[source]
        with self.locked():
            refusal, begun = self.reason(source)
            if refusal or target in self.dead:
                raise exception.DiskError(refusal or 'missing')
            if self.link not in (None, self.saved):
                self.database()
                self.saved = self.link
            if not begun:
                self.record = None
                if target in self.data:
                    self.condemn(target)
                self.record = move_records.Record(source, target)
            self.step()
            self.data.setdefault(target, 0)
            self.step()

    def condemn(self, disk):
        self.database()
        refused = copies.refusal(
            disk,
            NAME,
            self.link,
            self.saved,
            1,
            {one: self.disk(one) for one in OTHER},
        )
        if refused or self.in_use(disk):
            raise exception.DiskError(refused or 'in use')
        self.data.pop(disk, None)
        self.step()

    def disk(self, uuid):
        found = [VDisk(NAME, '1', None, 1)] if uuid in self.data else []
        if uuid in self.dead:
            return fake_disks.make_disk(uuid, 1, health='missing')
        return fake_disks.make_disk(uuid, 1, held=found)

    def in_use(self, disk):
        return disk not in self.dead and (
            disk in (self.qemu, self.read)
            or (self.copying and self.qemu is not None and disk in OTHER)
        )

    def copy(self, source):
        content = self.data[source]
        self.step()
        if self.qemu is not None:
            raise exception.DiskError('in use')
        self.paste(OTHER[source], content)
        self.step()
        if self.data.get(source) != content:
            raise exception.DiskError('written to')

    def paste(self, disk, content):
        if disk in self.dead or disk not in self.data:
            raise exception.DiskError('missing')
        self.data[disk] = content

    def check_target(self, target):
        lack = copies.lack(self.disk(target), NAME, 1)
        if lack:
            raise exception.DiskError(lack)

    def is_decided(self, target):
        return self.place == target

    def decide(self, source, moved):
        disk = OTHER[source] if moved else source
        linked = self.link is not None
        if linked:
            self.link, self.parked = disk, False
            self.step()
        if not linked or not moved:
            self.save(disk)

    def park(self):
        assert self.is_locked
        # whose QEMU has it open
        self.parked = self.qemu is not None
        self.step()

    def unpark(self):
        assert self.is_locked
        if self.fatal is not None and self.steps >= self.fatal:
            # nobody does it
            raise Killed
        if self.parked:
            self.parked = False
            self.step()

    def save(self, disk):
        if self.saved != disk:
            self.database()
            self.saved = disk
            self.step()
            # the answer may be lost
            self.database()

    def forget(self):
        self.record = None
        self.step()

    def guest(self):
        return self if self.qemu else None

    # the guest's disk

    def job(self):
        if not self.copying:
            return None
        target = OTHER[self.qemu]
        found = vdisk_steps.Job(target, 1, 2, self.ready)
        if not self.ready:
            self.ready = True
            self.data[target] = self.data[self.qemu]
        return found

    def start(self, path):
        if self.qemu is None or path in self.dead or path not in self.data:
            raise exception.DiskError('stopped')
        assert path == OTHER[self.qemu]
        self.copying = True
        self.step()

    def conclude(self):
        self.qemu = OTHER[self.qemu]
        self.denied = self.link == self.qemu and not self.parked
        self.lose_copy()

    def pivot(self):
        if not self.ready:
            raise exception.HypervisorError('no copy is ready')
        if self.away:
            raise exception.HypervisorError('libvirtd is away')
        how = next(self.pivots, '')
        if how == 'refused':
            raise exception.HypervisorError('refused')
        if how != '':
            self.late = 9 if how == 'too late' else how
            self.step()
            raise exception.HypervisorError('lost')
        self.conclude()
        self.step()

    def abort(self):
        if not self.copying:
            return False
        if self.away:
            raise exception.HypervisorError('libvirtd is away')
        how = next(self.pivots, '')
        if how == 'too late' and self.late is not None:
            # libvirt reports success when QEMU had begun to pivot
            self.conclude()
            self.step()
            return True
        if how:
            raise exception.HypervisorError('lost')
        self.lose_copy()
        self.step()
        return True

    def move(self, source):
        return Move(self, source)

    def check(self):
        self.database()
        self.step()


class Move(vdisk_steps.VDiskSteps):
    """A move of the vdisk of a world from a disk to the other one."""

    def __init__(self, world, source):
        self.world = world
        self.disks = source, OTHER[source]
        self.guest, self.check = world.guest, world.check
        self.forget, self.locked = world.forget, world.locked
        self.park, self.unpark = world.park, world.unpark

    source = property(lambda self: Place(self.world, self.disks[0]))
    target = property(lambda self: Place(self.world, self.disks[1]))
    guest = check = forget = locked = park = unpark = None

    def create(self):
        self.world.create(self.disks[0])

    def copy(self):
        self.world.copy(self.disks[0])

    def writes(self):
        return str(self.world.writes[self.disks[0]])

    def fill(self):
        self.world.step()

    def check_target(self):
        self.world.check_target(self.disks[1])

    def is_decided(self):
        return self.world.is_decided(self.disks[1])

    def decide(self, moved):
        self.world.decide(self.disks[0], moved)

    def save(self):
        self.world.save(self.disks[1])

    def progress(self, done, total):
        self.world.step()


class Place(vdisk_steps.Place):
    """A disk of a world; its UUID is the path."""

    path = None

    def __init__(self, world, disk):
        self.world, self.path = world, disk

    def activate(self):
        self.world.step()

    def condemn(self):
        self.world.condemn(self.path)

    def delete(self):
        self.world.step()

    def in_use(self):
        return self.world.in_use(self.path)
