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


"""A model of all that the data of a server that has moved depends on.

The vdisk of the other host is ``A``, that of the disk here is ``B``. The steps
are real; QEMU, Cinder and the hosts are the model's.
"""

import contextlib
import dataclasses
import types

from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote as remote_vdisks
from nova_diskplacer.disks.vdisk import VDisk
from tests.unit.cinder_vdisk_mapper.moves import world as worlds
from tests.unit.cinder_vdisk_mapper.moves.world import A
from tests.unit.cinder_vdisk_mapper.moves.world import B

SERVER = '5e3c6d0e-6f0f-4a0e-9a52-8a3f3c1d9b11'
THERE, HERE = 'there@vdisk', 'here@vdisk'
NAME = worlds.NAME
GIB = 1 << 30


class World(worlds.World):
    """A server that has moved here, and whose data has not.

    ``record`` is that of its move, ``saved`` tells which host has the volume:
    that of ``A`` or that of ``B``. While ``blocked``, the other host is away,
    and requests for its vdisk wait. ``session`` is the login there. ``task``
    is what Nova does with the server. Another request has the volume when it
    is ``busy``, once. ``whole`` is what the service keeps between attempts.
    """

    whole = ''
    busy = False
    changes = 0
    _record = None

    @property
    def record(self):
        return self._record

    @record.setter
    def record(self, after):
        before, self._record = self._record, after
        if before is None or after is None or before.phase != after.phase:
            self.changes += 1

    def __init__(self, runs=True):
        self.blocked = False
        super().__init__(runs)
        self.link = A
        self.data[B] = 0
        self.record = record.Record(THERE, HERE, SERVER, record.LEFT)
        self.session = True
        self.task = None
        self.size_gb = self.target_gb = 1
        self.stopping = False

    @property
    def went_home(self):
        """Whether the other host has ended the move."""
        return self.record is not None and self.record.phase in (
            record.ATTACHED,
            record.ABORTING,
        )

    # what happens

    def die(self):
        """Have the disk here be missing."""
        if self.saved == A:
            self.dead = {B}
            self.lose_copy()

    def go_away(self):
        self.blocked = True

    def come_back(self):
        self.blocked = False

    def write(self):
        if self.blocked and self.qemu == A:
            # it waits
            return
        super().write()

    def boot(self):
        if self.blocked and self.place == A:
            return
        super().boot()

    def stop(self):
        if self.blocked and self.qemu == A:
            # QEMU does not end while it waits for its disk
            return
        super().stop()

    def extend(self):
        """Have the volume be extended by the host that has it."""
        if self.saved == A:
            self.size_gb = 2

    def go_home(self):
        """Have Nova take the server back, unless this host has decided."""
        if self.is_locked or self.record is None:
            return
        if self.record.phase == record.LEFT:
            self.record = dataclasses.replace(
                self.record, phase=record.ATTACHED
            )

    def start_driver(self):
        """Have cinder-volume start here, or be asked by the other host."""
        self.parked = False
        if (
            self.record
            and self.record.phase == record.DECIDING
            and self.link == A
        ):
            self.record = dataclasses.replace(self.record, phase=record.LEFT)

    # what the steps use

    def settle(self):
        whole, self.whole = self.whole, ''
        move = self.move(whole=whole)
        try:
            settle_attempt.settle(move)
        except at_rest.Waits:
            self.whole = move.whole
            raise

    def move(self, source=A, whole=''):
        return settle_move.SettleMove(
            self,
            types.SimpleNamespace(
                rate=0, find=lambda server, volume: self.guest()
            ),
            '1',
            NAME,
            SERVER,
            B,
            lambda done, total: self.step(),
            lambda: self.stopping,
            whole,
        )

    def ask(self):
        """Have another request take the volume for longer than it waits."""
        self.busy = True

    @contextlib.contextmanager
    def hold(self, name):
        if self.busy:
            self.busy = False
            raise locks.Held(name)
        # both locks are one
        if name.startswith('move-'):
            with self.locked():
                yield
        else:
            yield

    # Destination

    backend_host = HERE

    @property
    def backend(self):
        return Backend(self)

    @property
    def operations(self):
        return types.SimpleNamespace(extend=self.extend_target)

    def extend_target(self, disk, name, size_gb):
        if B in self.dead:
            raise exception.DiskError('missing')
        self.target_gb = size_gb
        self.step()

    def save(self, volume, disk):
        assert disk == B
        worlds.World.save(self, disk)

    def go_on(self, volume, found):
        """Have the other host release its vdisk, or log in there again."""
        if self.saved == A:
            assert self.gone
            if self.blocked:
                raise exception.DiskError('no login')
            self.gone = False
            return
        assert self.saved == B
        if self.session:
            raise worlds.Lost('the session is open')
        self.step()
        if self.blocked:
            return
        self.data.pop(A, None)
        self.step()
        self.database()
        self.record = None

    # its backend

    disk_root = '/disks'

    def linked_disk(self, name):
        return {A: links.REMOTE, B: B}[self.link]

    def link_to(self, disk, name):
        self.link, self.parked = disk, False
        self.step()

    def find_vdisk(self, disk, name):
        found = self.disk(disk)
        if disk in self.dead:
            raise exception.DiskError('missing')
        return found, found.vdisks[0]

    def disk(self, uuid):
        found = super().disk(uuid)
        return dataclasses.replace(
            found,
            vdisks=tuple(
                VDisk(NAME, '1', SERVER, self.target_gb * GIB)
                for _ in found.vdisks
            ),
        )

    def copy_remote(self, disk, name, start):
        self.check_there()
        if start:
            # the second part
            self.paste(B, self.part)
            self.step()
            return None
        self.part = self.data[A]
        self.step()
        return 1

    def check_there(self):
        if self.blocked:
            raise remote_vdisks.Away('away')

    def remote_bytes(self):
        if self.gone:
            raise remote_vdisks.Away('its device is gone')
        return GIB

    def source_writes(self):
        self.check_there()
        return f'1/sda/{self.writes[A]}'

    def log_out(self):
        if self.in_use(A):
            raise worlds.Lost('QEMU has the device open')
        self.session = False
        self.step()

    def job(self):
        if self.blocked and self.copying and self.qemu == A:
            self.quiet_look()
            return types.SimpleNamespace(
                path=B, done=1, total=2, ready=self.ready
            )
        return super().job()

    def quiet_look(self):
        """Have time pass, until the other host is back."""
        self.patience -= 1
        if self.patience < 0:
            self.blocked = False

    patience = 5
    # this host was booted while the other one was away
    gone = False
    # an operator has removed the service of the other host
    removed = False
    copied = ''

    # Cinder

    def read_record(self, volume_id):
        self.database()
        return self.record

    def changed(self, volume_id):
        self.database()
        return str(self.changes)

    def advance(self, volume_id, before, phase, copied=None):
        self.database()
        if self.record != before:
            raise store.Changed('changed')
        self.record = dataclasses.replace(before, phase=phase)
        if copied is not None:
            self.copied = copied
        self.step()
        # the answer may be lost
        self.database()

    def fresh(self, volume_id):
        self.database()
        return types.SimpleNamespace(
            id='1',
            size=self.size_gb,
            status='in-use',
            migration_status=None,
            group_id=None,
            host={A: THERE, B: HERE}[self.saved] + '#pool',
            volume_attachment=[
                types.SimpleNamespace(
                    instance_uuid=SERVER, attach_status='attached'
                )
            ],
        )


class Backend:
    """What the steps use of the backend of a world."""

    def __init__(self, world):
        self.world = world
        for name in (
            'linked_disk',
            'find_vdisk',
            'disk',
            'copy_remote',
        ):
            setattr(self, name, getattr(world, name))

    disk_root = '/disks'

    def writes(self, disk, name):
        return str(self.world.writes[disk])

    def link(self, disk, name):
        self.world.link_to(disk, name)

    def link_remote(self, name):
        self.world.link_to(A, name)

    def park_link(self, name):
        self.world.park()

    def unpark_link(self, name):
        self.world.unpark()

    def extend(self, disk, name, size_gb):
        self.world.step()

    def in_use(self, disk, name):
        return self.world.in_use(disk)

    def attached_path(self, disk, name):
        return disk

    def attach_device(self, disk, name):
        self.world.step()
