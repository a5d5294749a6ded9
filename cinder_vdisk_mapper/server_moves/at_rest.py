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

"""Checks that nobody is at work on a server and a volume of it that has moved.

Its data is copied only then: what Nova or Cinder does with them may take the
move back, or write to the vdisk of the host that the server has left.
"""

from cinder import context as cinder_context
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.record import Record
from nova_diskplacer import exception

# Statuses of an attached volume that nothing works on. A user who extends it
# before its data has arrived gets the second, and cannot change it back.
_AT_REST = ('in-use', 'error_extending')


class Waits(exception.DiskPlacerError):
    """The data cannot be moved now; nothing is wrong."""


def check(volume_id: str, recorded: Record) -> None:
    """Check that a volume is its server's alone, and both are at rest.

    :raises Waits: it is not so now.
    :raises DiskPlacerError: Nova or the database does not answer.
    """
    _check_volume(volume_id, recorded.server)
    others = store.connectors(volume_id).keys() - {recorded.host}
    if others:
        raise Waits('its volume is attached to another host, too')
    _check_server(recorded)


def obstacle(volume: Volume, server: str) -> str:
    """Return why the data of a volume is not moved now, '' if it may be.

    :param server: UUID of its server.
    """
    if volume.status not in _AT_REST:
        return f'its volume is {volume.status}'
    if is_migrating(volume.migration_status):
        return f'its volume is being migrated: {volume.migration_status}'
    if volume.group_id:
        return f'its volume is in group {volume.group_id}'
    servers = {entry.instance_uuid for entry in attachments(volume)}
    if servers != {server}:
        return 'its volume is attached to another server, too'
    return ''


@errors.cinder_errors()
def _check_volume(volume_id: str, server: str) -> None:
    if reason := obstacle(store.fresh(volume_id), server):
        raise Waits(reason)
    if objects.SnapshotList.get_all_for_volume(
        cinder_context.get_admin_context(), volume_id
    ):
        raise Waits('its volume has snapshots on the host that it leaves')


def _check_server(recorded: Record) -> None:
    server = nova_api.get(cinder_context.get_admin_context(), recorded.server)
    if server is None:
        raise Waits('its server was deleted')
    if server.host != recorded.host:
        raise Waits('its server is not on this host')
    if not server.is_at_rest:
        raise Waits(f'its server is {server.status}, with task {server.task}')
