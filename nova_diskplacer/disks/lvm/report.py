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

"""Volume groups and logical volumes as LVM reports them.

What is required and not there, or not usable, raises DiskError.
"""

import collections
import dataclasses
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.filesystem import space
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import commands as host_commands

_COMMAND = (
    'lvm', 'fullreport', '--readonly', '--reportformat', 'json',
    '--units', 'b', '--nosuffix',
    '--configreport', 'vg', '-o',
    'vg_name,vg_tags,vg_size,vg_free,vg_permissions,vg_partial,vg_exported,'
    'vg_seqno',
    '--configreport', 'lv', '-o',
    'lv_name,lv_uuid,lv_tags,lv_size,lv_layout,origin,origin_size,pool_lv',
    '--configreport', 'pv', '-o', 'pv_name',
    '--configreport', 'pvseg', '-o', 'pvseg_start',
    '--configreport', 'seg', '-o', 'seg_start',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Volume:
    """A logical volume of the group with the name ``group``.

    ``origin`` is the name of the volume that a thick snapshot was made of, ''
    otherwise. ``size_bytes`` is the readable size, not the space that a
    snapshot takes.

    ``vdisk`` is the vdisk, or the leg of one, that the tags make of it, and
    ``whole_name`` the name of the vdisk that it is a leg of, or its own.
    ``dirty_tags`` are the tags DIRTY_FROM, and ``dirty_from`` the first byte
    that may hold old data, None without any. ``unusable_reason`` tells why no
    server may use it, '' if one may. ``devices`` are those of its group.
    """

    group: str
    name: str
    uuid: str
    tags: frozenset[str]
    size_bytes: int
    origin: str
    thin: bool
    vdisk: VDisk
    whole_name: str
    dirty_tags: tuple[str, ...]
    dirty_from: int | None
    unusable_reason: str
    devices: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path of the volume in LVM's commands, and below /dev."""
        return f'{self.group}/{self.name}'

    @property
    def stripe_tags(self) -> list[str]:
        """The tags that make it a piece of a striped vdisk."""
        keys = (naming.STRIPE + '.', naming.CHUNK + '=', naming.MINIMUM + '=')
        return sorted(tag for tag in self.tags if tag.startswith(keys))


@dataclasses.dataclass(frozen=True)
class Group:
    """A volume group.

    ``size_bytes`` and ``free_bytes`` are those of the group or of its thin
    pool. ``free_bytes`` lacks the full size of each thin volume. ``seqno``
    counts the changes of the group's metadata. ``zeroed_tag`` is the tag
    ZEROED, '' without it, and ``zeroed`` is true if the free space reads as
    zeros: a change by another program increments ``seqno``, which voids it.
    """

    name: str
    tags: frozenset[str]
    size_bytes: int
    free_bytes: int
    read_only: bool
    exported: bool
    partial: bool
    devices: tuple[str, ...]
    thin: bool
    volumes: tuple[Volume, ...]
    seqno: int = dataclasses.field(compare=False)
    zeroed_tag: str = dataclasses.field(compare=False)
    zeroed: bool = dataclasses.field(compare=False)

    @property
    def needs_zeroing(self) -> bool:
        """True if new volumes may hold old data."""
        return not self.thin and not self.zeroed

    @property
    def identity(self) -> identity.Identity:
        """The identity of the disk."""
        fields = {
            'version': identity.VERSION,
            'uuid': naming.value(self.tags, naming.UUID),
            'medium': naming.value(self.tags, naming.MEDIUM),
            'mbps': naming.number(naming.value(self.tags, naming.MBPS)),
        }
        try:
            return identity.parse(fields)
        except ValueError as error:
            raise exception.DiskError(
                f'tags of volume group {self.name}: {error}'
            ) from error

    @property
    def total_gb(self) -> int:
        """GiB that vdisks may fill, including the existing ones."""
        filled = sum(volume.size_bytes for volume in self.volumes)
        return space.capacity_gb(self.size_bytes, self.free_bytes, filled, 0)

    @property
    def vdisks(self) -> tuple[VDisk, ...]:
        """The vdisks in the group, sorted by name.

        All legs of an elastic vdisk are one.
        """
        by_name: dict[str, list[VDisk]] = collections.defaultdict(list)
        for volume in self.volumes:
            by_name[volume.whole_name].append(volume.vdisk)
        return tuple(_whole(name, by_name[name]) for name in sorted(by_name))

    def legs_of(self, vdisk: str) -> list[Volume]:
        """Return the volumes of a vdisk's legs, those that move at the end.

        A vdisk that is not elastic has one, of its own name.

        :raises DiskError: it cannot be the name of a vdisk.
        """
        naming.volume_name(vdisk)
        legs = [
            volume
            for volume in self.volumes
            if vdisk in (volume.vdisk.name, volume.whole_name)
        ]
        return sorted(legs, key=lambda leg: (leg.vdisk.moving, leg.vdisk.name))

    def find(self, vdisk: str) -> Volume | None:
        """Return the volume of a vdisk, None if there is none."""
        name = naming.volume_name(vdisk)
        return next(
            (volume for volume in self.volumes if volume.name == name), None
        )

    def require(self, vdisk: str) -> Volume:
        """Return the volume of a vdisk."""
        volume = self.find(vdisk)
        if volume is None:
            raise exception.DiskError(f'{self.name} has no vdisk {vdisk}')
        return volume

    def require_usable(self, vdisk: str) -> Volume:
        """Return the volume of a vdisk that servers may use."""
        volume = self.require(vdisk)
        if volume.unusable_reason:
            raise _unusable(volume)
        return volume

    def has_vdisk(
        self, name: str, volume_id: str, *, complete: bool = True
    ) -> bool:
        """Tell whether the group has the vdisk of a Cinder volume.

        :param complete: refuse an incomplete clone.
        :raises DiskError: the vdisk belongs to another volume, is being
            deleted, or is not complete.
        """
        volume = self.find(name)
        if volume is None:
            return False
        owner = volume.vdisk.volume_id
        if owner != volume_id:
            raise exception.DiskError(
                f'vdisk {name} in {self.name} belongs to {owner!r}'
            )
        if naming.DELETED in volume.tags or (
            complete and naming.INCOMPLETE in volume.tags
        ):
            raise _unusable(volume)
        return True

    def snapshots_of(self, vdisk: str) -> list[str]:
        """Return the names of a vdisk's thick snapshots."""
        name = naming.volume_name(vdisk)
        return [
            volume.vdisk.name
            for volume in self.volumes
            if volume.origin == name
        ]

    def check_free(self, size_bytes: int) -> None:
        """Check that the group has space left."""
        if size_bytes > self.free_bytes:
            raise exception.DiskError(
                f'{self.name} has {self.free_bytes} bytes free, '
                f'{size_bytes} are needed'
            )


def _whole(name: str, legs: list[VDisk]) -> VDisk:
    """Return the vdisk, or the piece of one, that consists of legs.

    It is usable if the legs that do not move are.
    """
    if len(legs) == 1:
        return dataclasses.replace(legs[0], name=name)
    staying = [leg for leg in legs if not leg.moving] or legs
    return dataclasses.replace(
        staying[0],
        name=name,
        size_bytes=sum(leg.size_bytes for leg in legs),
        usable=all(leg.usable for leg in staying),
        moving=len(staying) < len(legs) or staying[0].moving,
    )


def _unusable(volume: Volume) -> exception.DiskError:
    return exception.DiskError(
        f'vdisk {volume.vdisk.name} in {volume.group} {volume.unusable_reason}'
    )


def read(devices: tuple[str, ...]) -> str:
    """Return LVM's report of the disks' groups, as JSON.

    :param devices: the devices to search; none means all.
    """
    option = commands.devices_option(devices)
    return commands.run(*_COMMAND, *option, '@' + naming.TAG)


def parse(text: str) -> dict[str, Group]:
    """Return the groups of a full report in JSON, by name."""
    with host_commands.report_errors('lvm fullreport', text):
        reports = commands.parse_report(text)['report']
        groups = [_group(fields) for fields in reports if 'vg' in fields]
    return {group.name: group for group in groups}


def _group(report: dict[str, Any]) -> Group:
    fields = report['vg'][0]
    size, free = int(fields['vg_size']), int(fields['vg_free'])
    volumes = report.get('lv', ())
    pools = [
        lv
        for lv in volumes
        if lv['lv_name'] == naming.POOL
        and 'pool' in lv['lv_layout'].split(',')
    ]
    name = fields['vg_name']
    devices = tuple(pv['pv_name'] for pv in report.get('pv', ()))
    vdisk_volumes = tuple(
        _volume(name, lv, devices) for lv in volumes if lv not in pools
    )
    if pools:
        # thin volumes count with their full size, so the pool never overflows
        size = int(pools[0]['lv_size'])
        taken = sum(
            volume.size_bytes for volume in vdisk_volumes if volume.thin
        )
        free = max(0, size - taken)
    tags, seqno = _tags(fields['vg_tags']), int(fields['vg_seqno'])
    marks = frozenset(tag for tag in tags if tag.startswith(naming.ZEROED))
    zeroed_tag = min(marks, default='')
    return Group(
        name=name,
        tags=tags - marks,
        size_bytes=size,
        free_bytes=free,
        read_only=fields['vg_permissions'] != 'writeable',
        exported=bool(fields['vg_exported']),
        partial=bool(fields['vg_partial']),
        devices=devices,
        thin=bool(pools),
        volumes=tuple(sorted(vdisk_volumes, key=lambda volume: volume.name)),
        seqno=seqno,
        zeroed_tag=zeroed_tag,
        zeroed=zeroed_tag == naming.zeroed_tag(seqno),
    )


def _volume(
    group: str, fields: dict[str, str], devices: tuple[str, ...]
) -> Volume:
    thin = bool(fields['pool_lv'])
    origin = '' if thin else fields['origin']
    size_bytes = int(fields['origin_size' if origin else 'lv_size'])
    tags = _tags(fields['lv_tags'])
    moving = bool(naming.value(tags, naming.MOVING))
    dirty = tuple(tag for tag in tags if tag.startswith(naming.DIRTY_FROM))
    starts = [naming.number(tag.partition('=')[2]) or 0 for tag in dirty]
    reason = ''
    if naming.DELETED in tags:
        reason = 'is being deleted'
    elif naming.INCOMPLETE in tags and moving:
        reason = 'is being moved here'
    elif naming.INCOMPLETE in tags:
        reason = 'is a clone that is not complete'
    elif dirty:
        reason = 'is not zeroed yet'
    vdisk = VDisk(
        naming.vdisk_name(fields['lv_name']),
        naming.value(tags, naming.VOLUME),
        naming.value(tags, naming.SERVER) or None,
        size_bytes,
        not reason,
        naming.stripe_of(tags),
        naming.number(naming.value(tags, naming.MINIMUM)) or 0,
        moving,
    )
    is_leg = vdisk.minimum or moving
    return Volume(
        group=group,
        name=fields['lv_name'],
        uuid=fields['lv_uuid'],
        tags=tags,
        size_bytes=size_bytes,
        origin=origin,
        thin=thin,
        vdisk=vdisk,
        whole_name=naming.whole_name(vdisk.name) if is_leg else vdisk.name,
        dirty_tags=dirty,
        dirty_from=min(starts, default=None),
        unusable_reason=reason,
        devices=devices,
    )


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split(',')) - {''}
