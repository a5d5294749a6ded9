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

"""Ends the move of a server that has not come to be, at its source."""

from cinder import context as cinder_context
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.move_export import MoveExport
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import locks

LOG = logging.getLogger(__name__)


def abort(export: MoveExport, volume: Volume, recorded: Record) -> None:
    """Undo a move; what the destination has left, its start undoes.

    :raises Changed: another process goes on with it.
    :raises InUse: a process of the destination has, or may have, the vdisk
        open: the export stays.
    :raises DiskPlacerError: the export cannot be removed.
    """
    if recorded.phase != record.ABORTING:
        recorded = store.advance(volume.id, recorded, record.ABORTING)
    is_undone = other_host.go_on(
        volume, recorded.to, recorded.host
    ) or other_host.is_removed(recorded.to)
    if store.read(volume.id) not in (None, recorded):
        raise _in_use(volume, recorded, 'a process there has it open')
    if not is_undone and _is_there(volume, recorded):
        raise _in_use(
            volume, recorded, 'it does not answer, and has the server'
        )
    with locks.hold(f'export-{volume.id}'):
        if store.read(volume.id) not in (None, recorded):
            # another process has ended the move meanwhile
            raise _in_use(volume, recorded, 'it is attached there again')
        export.remove(volume)
    if is_undone and store.read(volume.id) == recorded:
        store.forget(volume.id, recorded)


def end_lost(export: MoveExport, volume: Volume, recorded: Record) -> bool:
    """Undo a decided move whose destination is lost; repeatable.

    :returns: False if it is not decided, nobody has removed the service of
        the destination, or the volume is attached there: the server may
        run there without that service, and write to its copy.
    :raises DiskPlacerError: the move is not undone.
    """
    if (
        recorded.phase != record.DECIDING
        or recorded.host in store.connectors(volume.id)
        or not other_host.is_removed(recorded.to)
    ):
        return False
    LOG.error(
        'Volume %s stays on %s: %s, where its server was to have it, is '
        'removed, and what the server wrote there last is lost',
        volume.id,
        recorded.source,
        recorded.to,
    )
    abort(export, volume, recorded)
    return True


def _is_there(volume: Volume, recorded: Record) -> bool:
    """Return whether the server runs, or may run, at the destination.

    :raises NovaError: Nova does not answer.
    """
    if recorded.host not in store.connectors(volume.id):
        return False
    context = cinder_context.get_admin_context()
    server = nova_api.get(context, recorded.server)
    return server is not None and server.host == recorded.host


def _in_use(volume: Volume, recorded: Record, reason: str) -> remote.InUse:
    return remote.InUse(
        f'the move of server {recorded.server} with volume {volume.id} to '
        f'{recorded.host} is not aborted: {reason}'
    )
