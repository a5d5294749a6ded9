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

"""The vdisks that a request for a server lacks.

Nothing here asks anybody: the filter has read flavor, volumes and default
type before.
"""

import collections
import collections.abc
import dataclasses
import functools

from nova_diskplacer import flavor

#: The first microversion in which a mapping can name a volume type.
NAMES_TYPES = '2.67'


class Refused(Exception):
    """The request does not suit its flavor; the message is for the user."""


@dataclasses.dataclass(frozen=True)
class Volume:
    """A volume that a request brings, or has created.

    ``size_gb`` is in GiB, None if only Cinder knows. ``volume_type`` is a
    name, None for the project's default type. ``is_new``: it is created with
    the server. ``bootable``: the server boots from it, or may.
    ``of_snapshot``: it is made of a snapshot.
    """

    size_gb: int | None
    volume_type: str | None = None
    is_blank: bool = False
    is_new: bool = False
    bootable: bool = False
    of_snapshot: bool = False

    @property
    def is_copy(self) -> bool:
        """True if it is created with the content of an image or snapshot."""
        return self.is_new and not self.is_blank


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for servers.

    ``volumes`` are those of one server. ``names_types``: the microversion can
    name a volume type in a mapping. ``is_legacy``: mappings are in the list
    ``block_device_mapping``, which knows no blank volumes. ``names_host``: the
    servers are all on one host, which it names.
    """

    volumes: tuple[Volume, ...] = ()
    servers: int = 1
    names_types: bool = True
    is_legacy: bool = False
    names_host: bool = False


def needs_default_type(vdisks: flavor.VDiskRequest, request: Request) -> bool:
    """Return whether the decision depends on the project's default type."""
    return vdisks.volume_type is not None and (
        not request.names_types
        or any(
            volume.volume_type is None and not volume.bootable
            for volume in request.volumes
        )
    )


def missing_vdisks(
    vdisks: flavor.VDiskRequest,
    request: Request,
    default_type: str | None = None,
) -> tuple[Volume, ...]:
    """Return the vdisks to add to each server of a request.

    All vdisks of the flavor if the request brings none, and none if it brings
    the right number. ``VDiskRequest.is_vdisk`` tells which volumes are vdisks;
    others may come along.

    :param default_type: the name of the project's default volume type; only
        needed where ``needs_default_type`` says so.
    :raises Refused: the number of vdisks that it brings is wrong, other
        volumes look as if they were to be the vdisks, or those that are
        missing cannot be asked for in such a request.
    """
    of_type = [
        volume
        for volume in request.volumes
        if vdisks.volume_type in (None, volume.volume_type or default_type)
    ]
    brought = sum(
        vdisks.is_vdisk(volume.size_gb, vdisks.volume_type, volume.bootable)
        for volume in of_type
    )
    if brought == vdisks.vdisks:
        return ()
    sizes = collections.Counter(
        volume.size_gb for volume in of_type if not volume.bootable
    )
    # as many volumes of one other size are most likely meant to be them
    if brought or (vdisks.vdisks > 1 and vdisks.vdisks in sizes.values()):
        raise Refused(
            f'The flavor has {_describe(vdisks)}, but the request brings '
            f'{_counted(sizes)}. Leave out the mappings of the vdisks, and '
            'they are added, or bring volumes of this number and size. '
            'Volumes beside the vdisks need another size or type.'
        )
    _check_possible(vdisks, request, default_type)
    vdisk = Volume(
        vdisks.vdisk_gb,
        vdisks.volume_type if request.names_types else None,
        is_blank=True,
        is_new=True,
    )
    return (vdisk,) * vdisks.vdisks


def creates_vdisks(
    vdisks: flavor.VDiskRequest, request: Request, missing: tuple[Volume, ...]
) -> bool:
    """Return whether vdisks of the flavor are created with the servers.

    :param missing: as ``missing_vdisks`` returns them.
    """
    return bool(missing) or any(
        volume.is_new
        and vdisks.is_vdisk(volume.size_gb, None, volume.bootable)
        for volume in request.volumes
    )


def local_copies(
    request: Request,
    hosts: collections.abc.Callable[[str], int],
    default_type: collections.abc.Callable[[], str],
) -> tuple[Volume, ...]:
    """Return the new volumes with content that are on one of several hosts.

    Cinder must create each of them on the host of its server.

    :param hosts: the number of hosts with the backend of a volume type, 0
        for a backend without vdisks.
    :param default_type: called at most once, for a volume that names no type.
    :raises Refused: Cinder cannot find that host.
    """
    default_type = functools.cache(default_type)
    local = tuple(
        volume
        for volume in request.volumes
        if volume.is_copy and hosts(volume.volume_type or default_type()) > 1
    )
    if not local or request.names_host:
        return local
    volume_type = local[0].volume_type or default_type()
    if any(volume.of_snapshot for volume in local):
        raise Refused(
            f'A new volume of type {volume_type} is made of a snapshot. It is '
            'on the host of the snapshot, and the server may be on another '
            'one. Create the volume first (openstack volume create '
            '--snapshot) and have the server use it: it is on the host of the '
            'volume then.'
        )
    if request.servers > 1:
        raise Refused(
            f'Each of {request.servers} servers has a new volume of type '
            f'{volume_type} made of an image, and Cinder cannot tell on which '
            'of their hosts to create it. Create one server per request, or '
            'choose another volume type.'
        )
    return local


def mapping(vdisk: Volume) -> dict[str, object]:
    """Return the block device mapping of a vdisk to add, as Nova's API."""
    named = {}
    if vdisk.volume_type is not None:
        named['volume_type'] = vdisk.volume_type
    return {
        'source_type': 'blank',
        'destination_type': 'volume',
        'volume_size': vdisk.size_gb,
        'boot_index': -1,
        'delete_on_termination': True,
        **named,
    }


def _check_possible(
    vdisks: flavor.VDiskRequest, request: Request, default_type: str | None
) -> None:
    if request.is_legacy:
        raise Refused(
            f'The flavor has {_describe(vdisks)}, and block_device_mapping '
            'cannot ask for blank volumes. Use block_device_mapping_v2 '
            'instead.'
        )
    if vdisks.volume_type in (None, default_type):
        return
    cure = (
        f'Use microversion {NAMES_TYPES} or later (openstack '
        f'--os-compute-api-version {NAMES_TYPES}) and leave out the mappings '
        f'of the vdisks, or have an administrator make {vdisks.volume_type} '
        "the project's default volume type."
    )
    if not request.names_types:
        raise Refused(
            f"The flavor has {_describe(vdisks)}, and the project's default "
            f'volume type is {default_type}. Requests before microversion '
            f'{NAMES_TYPES} cannot name a volume type. {cure}'
        )
    if any(
        volume.is_blank
        and not volume.volume_type
        and not volume.bootable
        and volume.size_gb == vdisks.vdisk_gb
        for volume in request.volumes
    ):
        # most likely they are meant to be the vdisks
        raise Refused(
            f'The flavor has {_describe(vdisks)}, but blank volumes of the '
            "request name no volume type and get the project's default type "
            f'{default_type}. {cure}'
        )


def _describe(vdisks: flavor.VDiskRequest) -> str:
    of_type = f' of type {vdisks.volume_type}' if vdisks.volume_type else ''
    sizes: dict[int | None, int] = {vdisks.vdisk_gb: vdisks.vdisks}
    return f'{_counted(sizes)}{of_type} (its vdisks)'


def _counted(sizes: collections.abc.Mapping[int | None, int]) -> str:
    """Return numbers of volumes by size in words."""
    return ' and '.join(
        f'{number} volume{"s" if number > 1 else ""} of '
        f'{"unknown size" if size is None else f"{size} GiB"}'
        for size, number in sizes.items()
    )
