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

"""The request to bind a vdisk: what Cinder and Nova know of its volume."""

import collections
import collections.abc
import dataclasses
import functools
from typing import Any

from cinder import exception as cinder_exc
from cinder import objects

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import VolumeType
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.cinder_api.types import is_target
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import mapping

#: more vdisks of one server than any disk holds
UNLIMITED = 1 << 30


# Extra spec of a volume type.
_MAPPING = 'vdisk:mapping'

#: shown to the owner of a volume in place of facts about other projects
OTHER_PROJECT = 'a volume can be attached only to a server of its own project'


@dataclasses.dataclass(frozen=True)
class BindRequest:
    """A request to bind a vdisk.

    ``server`` is the server that attaches the volume, in the volume's
    project, or None. ``boot_time`` is True for a volume that Nova made for
    the boot of that server. ``of_flavor`` is False for a volume that is none
    of the vdisks of the server's flavor, such as the one that it boots from:
    it fills no claim, and does not count where the flavor limits the vdisks
    on a disk. ``policy`` is the mapping where no claim decides. ``attached``
    returns the names of the vdisks that are attached to the server and count,
    by disk; it is called while the server is locked.
    """

    name: str
    volume_id: str
    size_gb: int
    policy: str
    server: nova_api.Server | None = None
    boot_time: bool = False
    of_flavor: bool = True
    attached: collections.abc.Callable[[], dict[str, frozenset[str]]] = dict

    @property
    def bound_for(self) -> str | None:
        """UUID of the server whose claims the vdisk counts against."""
        return self.server.uuid if self.server and self.of_flavor else None


def read(context: Any, volume: Volume, default_mapping: str) -> BindRequest:
    """Return the request to bind a volume for the server that attaches it.

    :param default_mapping: that of a volume whose type has none.
    :raises BindingError: there is no such server in the volume's project, or
        there are several.
    :raises InvalidVolumeType: as :func:`mapping_of`.
    :raises NovaError: Nova does not answer.
    """
    server = _attaching_server(context, volume)
    blank_of = naming.server_of_blank_volume(volume.display_name)
    return BindRequest(
        name=naming.volume(volume),
        volume_id=volume.id,
        size_gb=volume.size,
        server=server,
        # the volume that Cinder copies one to has its name, too
        boot_time=server is not None
        and blank_of == server.uuid
        and not is_target(volume.migration_status),
        of_flavor=is_of_flavor(server, volume),
        policy=mapping_of(volume.volume_type, default_mapping),
        attached=functools.partial(attached, context, server)
        if server
        else dict,
    )


def _attaching_server(context: Any, volume: Volume) -> nova_api.Server | None:
    """Return the server that attaches or has attached the volume.

    Any member of the volume's project can make an attachment with the UUID of
    any server, so Nova is asked each time for the project of the server.

    :raises BindingError: there is no such server in the volume's project, or
        there are several.
    :raises NovaError: Nova does not answer.
    """
    servers = {
        attachment.instance_uuid
        for attachment in attachments(volume)
        if attachment.instance_uuid
    }
    if len(servers) > 1:
        raise errors.BindingError(
            f'volume {volume.id} is being attached to several servers: '
            + ', '.join(sorted(servers)),
            'the volume is being attached to several servers',
        )
    if not servers:
        return None
    (uuid,) = servers
    server = nova_api.get(context, uuid)
    if server is None:
        raise errors.BindingError(
            f'volume {volume.id}: Nova knows no server {uuid}',
            OTHER_PROJECT,
        )
    if server.project_id != volume.project_id:
        raise errors.BindingError(
            f'volume {volume.id} is of project {volume.project_id}, server '
            f'{uuid} of project {server.project_id}',
            OTHER_PROJECT,
        )
    return server


def is_of_flavor(server: nova_api.Server | None, volume: Volume) -> bool:
    """Return whether a volume is one of the vdisks of its server's flavor.

    Of a server whose flavor has none, any volume counts as one, unless a
    server can boot from it.
    """
    if server is None or server.request is None:
        return not volume.bootable
    named = volume.volume_type.name if volume.volume_type else None
    return server.request.is_vdisk(volume.size, named, volume.bootable)


def attached(
    context: Any, server: nova_api.Server
) -> dict[str, frozenset[str]]:
    """Return the names of a server's attached vdisks, by disk.

    Those that are about to be attached are included. Volumes that are no
    vdisks of its flavor are not, nor are volumes of other projects: their
    owners may not attach them to this server.
    """
    by_disk = collections.defaultdict(set)
    for attachment in objects.VolumeAttachmentList.get_all_by_instance_uuid(
        context, server.uuid
    ):
        volume = attachment.volume
        if volume.project_id == server.project_id and is_of_flavor(
            server, volume
        ):
            for disk in naming.location(volume).disks:
                by_disk[disk].add(naming.volume(volume))
    return {disk: frozenset(names) for disk, names in by_disk.items()}


def mapping_of(volume_type: VolumeType | None, default: str) -> str:
    """Return the mapping of a type's volumes that fill no claim.

    :raises InvalidVolumeType: the mapping is not installed, or stripes: a
        flavor tells the number of disks.
    """
    extra_specs = (volume_type and volume_type.extra_specs) or {}
    policy = extra_specs.get(_MAPPING, default)
    if policy not in mapping.names_on_one_disk():
        raise cinder_exc.InvalidVolumeType(
            reason=f'{_MAPPING}={policy} is not one of: '
            + ', '.join(mapping.names_on_one_disk())
        )
    return policy


def max_per_disk(
    server: nova_api.Server | None, of_flavor: bool = True
) -> int:
    """Return how many vdisks of a server round robin binds to one disk.

    :param of_flavor: False for a volume that is no vdisk of its flavor.
    """
    if not of_flavor:
        return UNLIMITED
    return server.request.vdisks_per_disk if server and server.request else 1
