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

"""Does what the source of a server's move has to do.

The record says what comes next, see :mod:`record`. While the source has the
volume, Cinder sends it all requests for the volume.
"""

import dataclasses
from typing import Any

from cinder import context as cinder_context
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import end_move
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.move_export import MoveExport
from cinder_vdisk_mapper.server_moves.record import Act
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


@dataclasses.dataclass
class Source:
    """The source of servers' moves.

    :param backend_host: Cinder host of this backend, without a pool.
    :param export: exports its vdisks.
    :param target_helper: of the backend.
    """

    backend_host: str
    export: MoveExport
    target_helper: str

    @property
    def _backend(self) -> base.Backend:
        return self.export.operations.backend

    @property
    def _host(self) -> str:
        return self.backend_host.partition('@')[0]

    def attach(
        self,
        context: Any,
        volume: Volume,
        connector: Connector,
        request: BindRequest,
    ) -> ModelUpdate | None:
        """Export a volume to the host that its server moves to.

        :returns: the changes of the volume; None for an attachment at this
            host, and for one elsewhere that is no move.
        :raises DiskPlacerError: the volume cannot follow its server, or
            cannot be attached now.
        """
        host = self._name_of(connector)
        server = request.server.uuid if request.server else ''
        act, recorded = self._end_last(volume, host, server)
        if act is Act.REFUSE:
            raise checks.refused(volume, 'its last move has not ended')
        if act is Act.RETURN and recorded:
            store.advance(volume.id, recorded, record.ATTACHED)
        if host == self._host:
            return None
        if act is Act.GO_ON:
            _check_initiator(volume, connector)
        if act is Act.BEGIN and not self._begin(
            context, volume, connector, request
        ):
            return None
        try:
            return self.export.create(context, volume)
        except exception.DiskPlacerError:
            # Cinder tells the driver nothing of an export that has failed
            try:
                self.unexport(volume)
            except exception.DiskPlacerError as error:
                LOG.warning(
                    'Its next attachment or start aborts the move of '
                    'volume %s: %s',
                    volume.id,
                    error,
                )
            raise

    def _end_last(
        self, volume: Volume, host: str, server: str
    ) -> tuple[Act, Record | None]:
        """End the last move of a volume, as far as an attachment needs it.

        :returns: how to attach the volume, and the record by now.
        :raises DiskPlacerError: that has not ended, and the volume cannot be
            attached before.
        """
        # what the acts have come to: None where one is done
        tried: dict[Act, remote.InUse | None] = {}
        while True:
            recorded = store.read(volume.id)
            act = record.attach_at_source(
                recorded,
                self._host,
                host,
                server,
                store.connectors(volume.id),
                aborted=Act.ABORT in tried and not tried[Act.ABORT],
            )
            if recorded is None or act not in (Act.ABORT, Act.ASK):
                return act, recorded
            if act is Act.ASK and end_move.end_lost(
                self.export, volume, recorded
            ):
                continue
            if act in tried:
                raise tried[act] or checks.refused(
                    volume, 'the host of its last move does not answer'
                )
            tried[act] = None
            if act is Act.ABORT:
                try:
                    end_move.abort(self.export, volume, recorded)
                except remote.InUse as error:
                    tried[act] = error
                continue
            other_host.go_on(volume, recorded.to, recorded.host)
            if not self.has(store.fresh(volume.id)):
                raise checks.refused(
                    volume, 'its data has just moved there: try again'
                )

    def connect(
        self, volume: Volume, connector: Connector
    ) -> dict[str, Any] | None:
        """Have the destination attach a volume; returns the connection.

        :returns: None for an attachment at this host, or without a move.
        :raises DiskPlacerError: the destination does not attach it, or the
            move was aborted meanwhile.
        """
        recorded = store.read(volume.id)
        if recorded is None or self._name_of(connector) == self._host:
            return None
        if connector['host'] != recorded.host or recorded.phase not in (
            record.ATTACHING,
            record.ATTACHED,
            record.LEFT,
        ):
            raise checks.refused(volume, 'its move was aborted')
        volume = store.fresh(volume.id)
        _check_initiator(volume, connector)
        self.export.admit(volume, connector)
        connection = other_host.connect(volume, recorded.to, connector)
        if recorded.phase == record.ATTACHING:
            store.advance(volume.id, recorded, record.ATTACHED)
        return connection

    def detach(
        self, volume: Volume, connector: Connector | None
    ) -> bool | None:
        """Go on with a move when a host is detached.

        :returns: whether the export stays; None without a move.
        :raises DiskPlacerError: the database does not answer.
        """
        while True:
            recorded = store.read(volume.id)
            if recorded is None:
                return None
            if connector is None:
                return True
            host = self._name_of(connector)
            attached = store.connectors(volume.id)
            act = record.detach_at_source(
                recorded,
                self._host,
                host,
                attached,
                shared=store.is_shared(volume.id, connector['host']),
                # asked by the destination, see stale_moves
                gone=recorded.is_undecided
                and host == self._host
                and not self.export.names.intersection(attached)
                and _is_gone(recorded.server),
            )
            try:
                if act is Act.LEAVE:
                    self._leave(volume, recorded)
                elif act is Act.ABORT and not self._aborted(volume, recorded):
                    return True
            except store.Changed as error:
                LOG.info('%s', error)
                continue
            return None if act is Act.NONE else act is not Act.ABORT

    def unexport(self, volume: Volume) -> bool:
        """Remove the export of a move that has not come to be.

        :returns: whether it stays; else the volume is at rest here, although
            its destination may have something to undo.
        """
        recorded = store.read(volume.id)
        if recorded is None:
            return False
        act = record.unexport_at_source(recorded, store.connectors(volume.id))
        return act is not Act.ABORT or not self._aborted(volume, recorded)

    def _aborted(self, volume: Volume, recorded: Record) -> bool:
        """Undo a move; return False if its server is there in truth."""
        try:
            end_move.abort(self.export, volume, recorded)
        except remote.InUse as error:
            LOG.warning('%s', error)
            return False
        return True

    def release(self, volume: Volume, recorded: Record) -> None:
        """Remove the export of a volume that has moved, and the vdisk here.

        :raises DiskPlacerError: the volume is not known to be elsewhere, or a
            process uses the vdisk.
        """
        name = naming.volume(volume)
        location = naming.location(volume)
        here = {disk.uuid for disk in self._backend.disks()}
        if (
            store.holder(volume) != recorded.to
            or not location
            or here.intersection(location.disks)
        ):
            raise exception.DiskError(
                f'vdisk {name} is not deleted: volume {volume.id} is on disk '
                f'{location} of {volume.host}'
            )
        if not naming.is_exported(volume):
            return
        disks = self._backend.disks_holding(name)
        path = self._backend.attached_path(disks[0], name) if disks else ''
        context = cinder_context.get_admin_context()
        self.export.exporter.stop(context, volume, path)
        for disk in disks:
            self._backend.detach_device(disk, name)
            if self._backend.in_use(disk, name):
                raise exception.DiskError(
                    f'vdisk {name} is not deleted from disk {disk}, where a '
                    'process has it open'
                )
            self._backend.condemn(disk, name)
        self.export.operations.delete_leftovers(name)
        # tells the destination that nothing is left here
        self.export.exporter.forget(volume)
        LOG.info(
            'Volume %s has left disk %s for %s',
            volume.id,
            ', '.join(disks) or 'none',
            volume.host,
        )

    def start(self, volume: Volume, recorded: Record) -> None:
        """Go on with a move that a restart of this host has interrupted.

        :raises DiskPlacerError: it cannot be gone on with.
        """
        attached = store.connectors(volume.id)
        act = record.start_at_source(
            recorded, attached, has_volume=self.has(volume)
        )
        if act is Act.ABORT:
            end_move.abort(self.export, volume, recorded)
        elif act is Act.EXPORT:
            self.export.create(cinder_context.get_admin_context(), volume)
            # it is detached there if the server was deleted while it decided
            if connector := attached.get(recorded.host):
                self.export.admit(volume, connector)
        else:
            self.release(volume, recorded)
            other_host.go_on(volume, recorded.to, recorded.host)

    def has(self, volume: Volume) -> bool:
        """Return whether this backend has a volume."""
        return store.holder(volume) == self.backend_host

    def _name_of(self, connector: Connector) -> str:
        host = str(connector['host'])
        return self._host if host in self.export.names else host

    def _is_blank(self, volume: Volume, request: BindRequest) -> bool:
        """Return whether a volume follows its server without its vdisk."""
        location = naming.location(volume)
        if store.connectors(volume.id):
            return False
        return all(
            handover.is_blank(self._backend, request, disk)
            for disk in location.disks
        )

    def _begin(
        self,
        context: Any,
        volume: Volume,
        connector: Connector,
        request: BindRequest,
    ) -> bool:
        """Record a move if the volume can follow its server.

        :returns: False if the server does not move, or the volume follows it
            without its vdisk, which is blank.
        :raises BindingError: it cannot.
        """
        if self._is_blank(volume, request):
            return False
        facts = checks.read(
            self.export.operations,
            volume,
            request,
            connector,
            self.export.names,
            frozenset(store.connectors(volume.id)),
            self.target_helper,
        )
        if not checks.is_move(facts):
            return False
        if reason := checks.refusal(facts):
            raise checks.refused(volume, reason)
        _, to = handover.find_target(context, volume, connector['host'])
        with locks.hold(f'volume-{volume.id}'):
            # the drain of a disk would change the link after the export
            if self._backend.recorded_move(request.name):
                raise checks.refused(
                    volume, 'it is being moved to another disk'
                )
            store.begin(
                volume.id,
                Record(
                    self.backend_host,
                    to.partition('#')[0],
                    request.server.uuid if request.server else '',
                    record.ATTACHING,
                ),
            )
        LOG.info(
            'Volume %s on disk %s of %s follows server %s to %s',
            volume.id,
            naming.location(volume),
            self.backend_host,
            request.server and request.server.uuid,
            to,
        )
        return True

    def _leave(self, volume: Volume, recorded: Record) -> None:
        """Keep the vdisk for the destination: Nova drops its claim now."""
        store.advance(volume.id, recorded, record.LEFT)
        for disk in naming.location(volume).disks:
            with locks.hold(f'disk-{disk}'):
                self.export.operations.try_reserve(disk)


def _is_gone(server: str) -> bool:
    """Return whether Nova has no such server, as far as it answers."""
    try:
        found = nova_api.get(cinder_context.get_admin_context(), server)
    except exception.DiskPlacerError as error:
        LOG.warning('Server %s may be there still: %s', server, error)
        return False
    return found is None


def _check_initiator(volume: Volume, connector: Connector) -> None:
    """Check that a host has the initiator by which it is attached already.

    Else its session would end: the export is for one initiator. A user can
    attach the volume again, and name any initiator.

    :raises BindingError: it has another one.
    """
    attached = store.connectors(volume.id).get(connector['host'])
    if attached and attached.get('initiator') != connector.get('initiator'):
        raise checks.refused(
            volume, 'it is attached there by another iSCSI initiator'
        )
