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

"""Rules for vdisks that follow their server to another host.

Pure functions over what the scheduler knows: Nova's record of the volumes'
connections, and the agents' reports. What only Cinder knows, such as snapshots
and encryption, the Cinder driver refuses when Nova attaches the volumes.
"""

import collections.abc
import typing

from nova.compute import task_states

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import ServerVolumes

# The flavor lets its servers come back without their data.
_ON_HOST_LOSS = flavor.NAMESPACE + flavor.ON_HOST_LOSS

Copies = collections.abc.Mapping[str, collections.abc.Collection[BoundVDisk]]


def may_leave(flavor_: typing.Any) -> bool:
    """Return whether a server of a flavor may ever leave its vdisks.

    :param flavor_: of a request spec.
    """
    return conf.CONF.diskplacer_scheduler.moves or (
        'extra_specs' in flavor_ and _ON_HOST_LOSS in flavor_.extra_specs
    )


def comes_back_blank(
    volumes: ServerVolumes, request: flavor.VDiskRequest | None
) -> bool:
    """Return whether an evacuated server comes back without its data.

    Cinder attaches its volumes elsewhere only when an administrator has given
    up the data.
    """
    return (
        volumes.task_state == task_states.REBUILDING
        and request is not None
        and request.on_host_loss == flavor.BLANK
    )


def why_pinned(
    volumes: ServerVolumes,
    copies: Copies,
    request: flavor.VDiskRequest | None,
) -> str:
    """Return why a server can be on no other host than its vdisks.

    :param copies: the vdisks of each volume as the hosts report them, by the
        volume's id.
    :param request: the vdisks that it claims where it goes, None for none.
    :returns: the first reason, in words that follow "as", '' if all of its
        vdisks can follow it.
    """
    if volumes.at_boot is not None:
        return 'a new server boots where its volumes are'
    is_blank = comes_back_blank(volumes, request)
    if volumes.task_state == task_states.REBUILDING and not is_blank:
        return 'it is evacuated, and its data is on the host that failed'
    if is_blank and not volumes.is_host_lost:
        return 'it is evacuated from a host that is not forced down'
    if request is None:
        return 'its flavor has no vdisks, so it claims none elsewhere'
    if request.legs > 1 and not is_blank:
        return f'vdisks with mapping {request.mapping} do not change hosts'
    bound = [
        volume
        for volume in volumes.attached
        if volume.host or volume.volume_id in copies
    ]
    is_live = volumes.task_state == task_states.MIGRATING
    for volume in bound:
        vdisks = copies.get(volume.volume_id, ())
        reason = (
            _why_not_blank(volume, vdisks, request)
            if is_blank
            else _why_volume(volume, vdisks, request, is_live)
        )
        if reason:
            return f'volume {volume.volume_id} {reason}'
    if len(bound) > request.vdisks:
        return (
            f'it has {len(bound)} vdisks, and its flavor claims '
            f'{request.vdisks} elsewhere'
        )
    return ''


def _why_volume(
    volume: AttachedVolume,
    vdisks: collections.abc.Collection[BoundVDisk],
    request: flavor.VDiskRequest,
    is_live: bool,
) -> str:
    """Return why a volume does not follow its server, '' if it does."""
    if is_unsettled(volume, vdisks):
        return f'has not settled: its data is on host {volume.moving_from}'
    if not vdisks:
        return 'is reported by no agent'
    # a host that has got another provider reports each vdisk by both
    if volume.is_striped or len(vdisks) > len({v.provider for v in vdisks}):
        return 'is striped or elastic, and does not change hosts'
    if is_live and volume.is_file:
        return 'is attached as a file, and does not migrate live'
    if volume.is_root:
        return _is_no_vdisk(request)
    for size_gb in sorted({vdisk.size_gb for vdisk in vdisks}):
        if size_gb != request.vdisk_gb:
            return _has_other_size(size_gb, request)
    return ''


def _why_not_blank(
    volume: AttachedVolume,
    vdisks: collections.abc.Iterable[BoundVDisk],
    request: flavor.VDiskRequest,
) -> str:
    """Return why a volume does not come back blank, '' if it does.

    Its host may have been away for so long that nobody reports its vdisk.
    """
    if is_unsettled(volume, vdisks):
        return f'has not settled: its data is on host {volume.moving_from}'
    if volume.is_root:
        return _is_no_vdisk(request)
    if volume.size_gb not in (None, request.vdisk_gb):
        return _has_other_size(volume.size_gb, request)
    return ''


def _has_other_size(size_gb: int | None, request: flavor.VDiskRequest) -> str:
    return (
        f'has {size_gb} GiB, and the flavor claims vdisks of '
        f'{request.vdisk_gb} GiB: a vdisk that follows its server keeps its '
        'size, so resize the server to such a flavor on the same host'
    )


def _is_no_vdisk(request: flavor.VDiskRequest) -> str:
    return (
        f'is none of the {request.vdisks} vdisks of {request.vdisk_gb} GiB '
        'that its flavor claims elsewhere'
    )


def is_unsettled(
    volume: AttachedVolume,
    vdisks: collections.abc.Iterable[BoundVDisk],
) -> bool:
    """Return whether a volume's data is still on the host that it came from.

    Nova's record of the connection is not renewed when it settles, but that
    host then deletes its vdisk.
    """
    return any(vdisk.host == volume.moving_from for vdisk in vdisks)
