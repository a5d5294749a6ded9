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

"""Checks if a vdisk can follow its server to another host.

Nova's scheduler has let the server go there and has claimed disks there. What
only Cinder knows is checked here. A volume that cannot follow is not attached
there, and Nova takes the server back.
"""

import dataclasses
from typing import Any

from cinder import context as cinder_context
from cinder import objects
from cinder.message import api as message_api
from cinder.message import message_field
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import export
from cinder_vdisk_mapper.attach import handover
from cinder_vdisk_mapper.attach.bind_request import BindRequest
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations

LOG = logging.getLogger(__name__)

# Task of a server that migrates live.
_MIGRATING = 'migrating'

# Tasks of a server to whose host Nova attaches volumes as it has moved: by a
# migration or resize, by the revert of one, where a volume that was handed
# over blank has content now, or by being unshelved. It is rebuilt where it is,
# maybe before its data has arrived.
_ARRIVING = (
    'resize_finish',
    'resize_reverting',
    handover.UNSHELVED,
    'rebuild_block_device_mapping',
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VolumeFacts:
    """The facts that keep a volume on the host that has its data."""

    is_encrypted: bool
    has_group: bool
    has_snapshots: bool
    is_migrated: bool

    def why_it_stays(self) -> str:
        """Return why the volume stays on its host, '' if it may leave."""
        if self.is_encrypted:
            return 'it is encrypted'
        if self.has_snapshots:
            return 'it has snapshots'
        if self.has_group:
            return 'it is in a group'
        if self.is_migrated:
            return 'it is being migrated'
        return ''


@errors.cinder_errors()
def read_volume_facts(volume: Volume) -> VolumeFacts:
    """Read what keeps a volume on the host that has its data.

    :raises DiskPlacerError: the database does not answer.
    """
    snapshots = objects.SnapshotList.get_all_for_volume(
        cinder_context.get_admin_context(), volume.id
    )
    return VolumeFacts(
        is_encrypted=bool(volume.encryption_key_id),
        has_group=bool(volume.group_id),
        has_snapshots=bool(snapshots),
        is_migrated=is_migrating(volume.migration_status),
    )


@dataclasses.dataclass(frozen=True)
class Facts(VolumeFacts):
    """The facts that decide if a vdisk can follow its server.

    :param here: names of this host.
    :param server: that moves, None if it is not known.
    :param attached: names of the hosts that have the volume attached.
    :param elsewhere: whether the server claims disks of another host.
    :param is_block: whether the vdisk is a block device, or can become one.
    """

    here: frozenset[str]
    server: nova_api.Server | None
    connector: Connector
    attached: frozenset[str]
    elsewhere: bool
    of_flavor: bool
    is_block: bool
    target_helper: str
    is_striped: bool


def read(
    operations: Operations,
    volume: Volume,
    request: BindRequest,
    connector: Connector,
    here: frozenset[str],
    attached: frozenset[str],
    target_helper: str,
) -> Facts:
    """Read what decides if a vdisk can follow its server.

    :raises DiskPlacerError: Placement or the database does not answer.
    """
    backend = operations.backend
    location = naming.location(volume)
    server = request.server
    vdisks = [
        vdisk
        for disk in location.disks
        for vdisk in backend.disk(disk).vdisks
        if vdisk.name == request.name
    ]
    return Facts(
        here=here,
        server=server,
        connector=connector,
        attached=attached,
        elsewhere=server is not None
        and handover.claims_elsewhere(operations, server),
        of_flavor=request.of_flavor,
        is_block=_is_block(backend, request.name, bool(attached & here)),
        target_helper=target_helper,
        is_striped=location.is_striped or any(one.stripe for one in vdisks),
        **dataclasses.asdict(read_volume_facts(volume)),
    )


def _is_block(backend: base.Backend, name: str, is_attached: bool) -> bool:
    """Return whether a vdisk is a block device, or can become one.

    A server that runs with a file cannot be given a device in its place.
    """
    if backend.connection_type == base.BLOCK_DEVICE:
        return True
    return backend.makes_devices and (
        not is_attached or backend.is_linked_to_device(name)
    )


def is_move(facts: Facts) -> bool:
    """Return whether Nova has let the server go to the host that attaches.

    Any user of a volume can name any host to Cinder, but only Nova claims
    disks of another host for a server, and is at work on it then. A volume
    that a user attaches to a server at rest follows nobody.
    """
    server, host = facts.server, facts.connector.get('host')
    if server is None or not facts.elsewhere:
        return False
    if server.host == host:
        return server.task in _ARRIVING
    if server.host is None:
        # Nova attaches the volumes of an unshelved server before it has a host
        return server.task == handover.UNSHELVED
    return server.host in facts.here and server.task == _MIGRATING


def refusal(facts: Facts) -> str:
    """Return why a vdisk cannot follow its server, '' if it can.

    It names nothing that the owner of the volume must not know.
    """
    if not facts.of_flavor:
        return 'it is none of the vdisks of the flavor of its server'
    if facts.is_striped:
        return 'it is striped over several disks'
    if reason := facts.why_it_stays():
        return reason
    if facts.attached - facts.here - {facts.connector.get('host')}:
        return 'it is attached on a third host'
    if not facts.is_block:
        return 'it is attached as a file, not as a block device'
    if facts.target_helper != export.LIO:
        return f'it cannot be exported without target_helper={export.LIO}'
    if not facts.connector.get('initiator'):
        return 'the host that attaches it has no iSCSI initiator'
    return ''


def refused(volume: Volume, reason: str) -> errors.BindingError:
    """Return the error that a vdisk cannot follow its server."""
    return errors.BindingError(
        f'volume {volume.id} of {volume.host} cannot follow its server to '
        f'another host: {reason}',
        f'the volume cannot follow its server to another host: {reason}',
    )


def tell(context: Any, volume: Volume) -> None:
    """Make a user message that a volume was not attached.

    Cinder has a fixed list of texts; the reason is in the error and the log.
    """
    owners = context.elevated()
    # of an administrator's migration, too
    owners.project_id = volume.project_id
    message_api.API().create(
        owners,
        message_field.Action.ATTACH_VOLUME,
        resource_uuid=volume.id,
        detail=message_field.Detail.ATTACH_ERROR,
    )
