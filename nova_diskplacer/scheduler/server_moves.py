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

from nova.compute import task_states

from nova_diskplacer import flavor
from nova_diskplacer.scheduler.plan import BoundVDisk
from nova_diskplacer.scheduler.server_volumes import AttachedVolume
from nova_diskplacer.scheduler.server_volumes import ServerVolumes

Copies = collections.abc.Mapping[str, collections.abc.Collection[BoundVDisk]]


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
    if volumes.task_state == task_states.REBUILDING:
        return 'it is evacuated, and its data is on the host that failed'
    if request is None:
        return 'its flavor has no vdisks, so it claims none elsewhere'
    if request.legs > 1:
        return f'vdisks with mapping {request.mapping} do not change hosts'
    bound = [
        volume
        for volume in volumes.attached
        if volume.host or volume.volume_id in copies
    ]
    is_live = volumes.task_state == task_states.MIGRATING
    for volume in bound:
        reason = _why_volume(
            volume, copies.get(volume.volume_id, ()), request, is_live
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
    if volume.is_striped or len(vdisks) > len({v.host for v in vdisks}):
        return 'is striped or elastic, and does not change hosts'
    if is_live and volume.is_file:
        return 'is attached as a file, and does not migrate live'
    sizes = {vdisk.size_gb for vdisk in vdisks}
    if volume.is_root or sizes != {request.vdisk_gb}:
        return (
            f'is none of the {request.vdisks} vdisks of {request.vdisk_gb} '
            'GiB that its flavor claims elsewhere'
        )
    return ''


def is_unsettled(
    volume: AttachedVolume,
    vdisks: collections.abc.Iterable[BoundVDisk],
) -> bool:
    """Return whether a volume's data is still on the host that it came from.

    Nova's record of the connection is not renewed when it settles, but that
    host then deletes its vdisk.
    """
    return any(vdisk.host == volume.moving_from for vdisk in vdisks)
