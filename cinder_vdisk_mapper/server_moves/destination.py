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

"""Does what the destination of a server's move has to do.

The record says what comes next, see :mod:`record`. Until the destination has
the volume, Cinder's requests go to the source, which asks the destination.

From the decision to the logout only the process that settles the data goes on,
see :mod:`settle_move`: it follows QEMU from the one vdisk to the other.
"""

import collections.abc
import contextlib
import dataclasses
import time
from typing import Any

from cinder import context as cinder_context
from cinder import objects
from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import release
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.record import Act
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

# Seconds to wait for another request for the same volume, and for a QEMU that
# is about to end; Cinder waits 60 seconds for the answer.
_LOCK_PATIENCE = 30.0
_PATIENCE = 15.0
_INTERVAL = 0.2


@dataclasses.dataclass
class Destination:
    """The destination of servers' moves.

    :param backend_host: Cinder host of this backend, without a pool.
    :param media: hdd, ssd or any.
    """

    backend_host: str
    operations: Operations
    media: str

    @property
    def backend(self) -> base.Backend:
        """The backend that stores vdisks."""
        return self.operations.backend

    @contextlib.contextmanager
    def locked(self, volume_id: str) -> collections.abc.Iterator[None]:
        """Keep others from going on with the move of a volume here.

        :raises BindingError: another one does for long.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(
                    locks.hold_within(f'move-{volume_id}', _LOCK_PATIENCE)
                )
            except locks.Held:
                raise errors.BindingError(
                    f'{self.backend_host} is still at work on volume '
                    f'{volume_id}, whose server moves, since '
                    f'{_LOCK_PATIENCE:.0f} s: its iSCSI session may hang. Try '
                    'again later; a restart of cinder-volume and '
                    'diskplacer-settle there goes on with it',
                    'another request for the volume has not ended on the host '
                    'of its server; try again later',
                ) from None
            yield

    def bind(self, volume: Volume, request: BindRequest) -> None:
        """Make the empty target of a vdisk on a disk that its server claims.

        :raises DiskPlacerError: the server claims none here, or the move was
            aborted.
        """
        with self.locked(volume.id):
            self._check_attaching(volume)
            server = request.server
            if server is None or not self._is_claimed(server.uuid):
                raise checks.refused(
                    volume, 'its server claims no disks there'
                )
            with binding.locked(request):
                binding.Binder(self.operations, self.media).bind(
                    # it fills a claim, or is not bound
                    dataclasses.replace(request, boot_time=True)
                )

    def connect(self, volume: Volume) -> dict[str, Any]:
        """Attach the vdisk of the source; returns the connection.

        :raises DiskPlacerError: the source does not answer or the move was
            aborted.
        """
        name = naming.volume(volume)
        with self.locked(volume.id):
            recorded = self._check_attaching(volume)
            self._attach(name, remote.target_of(store.fresh(volume.id)))
            disks = self.backend.disks_holding(name)
        return {
            'driver_volume_type': base.BLOCK_DEVICE,
            'data': {
                'device_path': self.backend.link_path(name),
                'vdisk': {
                    'disk': ','.join(disks),
                    'host': self.backend_host.partition('@')[0],
                    constants.MOVING_FROM: recorded.source_host,
                },
            },
        }

    def go_on(
        self, volume: Volume, recorded: Record, *, starts: bool = False
    ) -> None:
        """Go on with a move at a start, or when the source asks.

        :param starts: whether cinder-volume starts.
        :raises DiskPlacerError: it cannot be gone on with.
        """
        name = naming.volume(volume)
        act = None
        with self.locked(volume.id):
            while act in (None, Act.STAY):
                volume, current = store.fresh(volume.id), store.read(volume.id)
                if current is None:
                    return
                recorded = current
                act = self._go_on(volume, recorded, name, starts)
        if act is Act.FINISH:
            release.finish(volume.id)

    def _go_on(
        self, volume: Volume, recorded: Record, name: str, starts: bool
    ) -> Act:
        """Do what is next, and return what it was."""
        self.backend.unpark_link(name)
        linked = self.backend.linked_disk(name)
        act = record.go_on_at_destination(
            recorded,
            has_volume=store.holder(volume) == self.backend_host,
            decided=linked not in (None, links.REMOTE),
            logged_in=self.backend.remote_device(name) is not None,
            starts=starts,
        )
        if act is Act.STAY:
            store.advance(volume.id, recorded, record.LEFT)
        elif act is Act.CONNECT:
            self._attach(name, remote.target_of(volume))
        elif act is Act.UNDO:
            self._undo_move(volume, recorded, name)
            if recorded.phase == record.ABORTING and not naming.is_exported(
                volume
            ):
                store.forget(volume.id, recorded)
        elif act is Act.FINISH and recorded.phase != record.RELEASING:
            store.advance(volume.id, recorded, record.RELEASING)
        return act

    @errors.cinder_errors()
    def save(self, volume: Volume, disk: str) -> None:
        """Save that the destination has the volume, in one step.

        :param disk: UUID of the disk with its copy, where its link leads.
        :raises DiskError: the database does not answer.
        """
        before = volume.host
        self._take(volume)
        volume.provider_location = disk
        volume.save()
        LOG.info(
            'Volume %s is on disk %s of %s now, not on %s',
            volume.id,
            disk,
            volume.host,
            before,
        )

    @errors.cinder_errors()
    def save_lost(self, volume: Volume) -> None:
        """Save that the destination has a volume whose data is lost.

        It is in error, so that nobody attaches an empty one in its place.

        :raises DiskError: the database does not answer.
        """
        self._take(volume)
        for name, value in naming.bound_to(None).items():
            setattr(volume, name, value)
        volume.provider_auth = None
        volume.status = 'error'
        volume.save()

    def _take(self, volume: Volume) -> None:
        """Set the host of a volume to this backend; the caller saves it."""
        service = objects.Service.get_by_args(
            cinder_context.get_admin_context(),
            self.backend_host,
            'cinder-volume',
        )
        pool = volume_utils.extract_host(volume.host, 'pool')
        volume.host = volume_utils.append_host(self.backend_host, pool)
        volume.service_uuid = service.uuid

    def _undo_move(self, volume: Volume, recorded: Record, name: str) -> None:
        """Undo a move, or record that its server is here in truth.

        :raises InUse: it is.
        """
        try:
            self.undo(name)
        except remote.InUse as error:
            if recorded.phase == record.ABORTING and naming.is_exported(
                volume
            ):
                store.advance(volume.id, recorded, record.ATTACHED)
            LOG.warning(
                'The move of server %s with volume %s is not aborted on %s: '
                '%s',
                recorded.server,
                volume.id,
                self.backend_host,
                error,
            )
            raise

    def undo(self, name: str) -> None:
        """Remove link, login and target of a vdisk of another host.

        :raises InUse: a process has target or device open; both stay.
        :raises DiskError: the link leads to the target, or the session does
            not end.
        """
        linked = self.backend.linked_disk(name)
        if linked not in (None, links.REMOTE):
            raise exception.DiskError(
                f'{name} is not removed from disk {linked}: its link leads '
                'there'
            )
        try:
            self._wait_until_unused(name)
            self.backend.unlink(name)
            # looks again: nobody else opens it now
            remote.log_out(self.backend, name)
        except remote.InUse:
            if self.backend.remote_device(name):
                self.backend.link_remote(name)
            raise
        for disk in self.backend.disks_holding(name):
            self.operations.delete(disk, name)

    def _wait_until_unused(self, name: str) -> None:
        """Wait for a QEMU that is about to end.

        :raises InUse: a process has the vdisk or its target open for longer.
        """
        deadline = time.monotonic() + _PATIENCE
        while opened := self.open_places(name):
            if time.monotonic() > deadline:
                raise remote.InUse(
                    f'{name} is not removed: a process has '
                    f'{", ".join(opened)} open'
                )
            time.sleep(_INTERVAL)

    def open_places(self, name: str) -> list[str]:
        """Return which of remote vdisk and targets a process has open."""
        backend = self.backend
        places = [
            f'its copy on disk {disk}'
            for disk in backend.disks_holding(name)
            if backend.in_use(disk, name)
        ]
        device = backend.remote_device(name)
        if device and backend.remote_in_use(name):
            places.append(device)
        return places

    def _attach(self, name: str, target: remote.Target) -> None:
        linked = self.backend.linked_disk(name)
        if linked not in (None, links.REMOTE):
            raise exception.DiskError(
                f'{name} is not linked to another host: it is on disk {linked}'
            )
        remote.log_in(self.backend, name, target)
        self.backend.link_remote(name)

    def _check_attaching(self, volume: Volume) -> Record:
        """Return the record of a move that comes here.

        :raises BindingError: there is none, or it was aborted.
        """
        recorded = store.read(volume.id)
        if (
            recorded is None
            or recorded.to != self.backend_host
            or recorded.phase
            not in (record.ATTACHING, record.ATTACHED, record.LEFT)
        ):
            raise checks.refused(volume, 'its move was aborted')
        return recorded

    def _is_claimed(self, server: str) -> bool:
        """Return whether a server claims a disk of this backend."""
        claims = self.operations.placement.allocations(server).resources
        return any(
            placement_client.GB in claims.get(disk.uuid, {})
            for disk in self.backend.disks()
        )
