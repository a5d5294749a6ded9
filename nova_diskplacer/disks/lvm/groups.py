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

"""The volume groups that are disks of this host, as LVM reports them.

Such a disk is one volume group, ``diskplacer-<uuid>``, whose tags are its
identity. Its entry in the disk root is a symbolic link to the group's
directory below /dev, so that a group that is away is a disk that is missing,
and a host without such entries never asks LVM anything.
"""

import collections.abc
import contextlib
import dataclasses
import json
import os
import re
import threading
import time
from typing import Any
from typing import TypeVar

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.disks import looks
from nova_diskplacer.disks.lvm import devices as lvm_devices
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.host import commands

TAG = 'diskplacer'
UUID = 'diskplacer.uuid'
MEDIUM = 'diskplacer.medium'
MBPS = 'diskplacer.mbps'
# of a group: what is free in it reads as zeros, as of metadata of this number
ZEROED = 'diskplacer.zeroed'
VOLUME = 'diskplacer.volume'
SERVER = 'diskplacer.server'
# of a volume: its bytes from this one on may be somebody else's yet
DIRTY_FROM = 'diskplacer.dirty_from'
# of a volume: it is not all there yet, or not any more
INCOMPLETE = 'diskplacer.incomplete'
DELETED = 'diskplacer.deleted'

# The pool of a thin group.
POOL = 'pool'

PREFIX = 'diskplacer-'

# Seconds to wait for udev, which may have open what is to go.
_PATIENCE = 60
_SETTLING = 1

# What a group may need beside vdisks: how its snapshots' changes are mapped.
SLACK = 64 << 20

_ENVIRONMENT = {'LC_ALL': 'C', 'LVM_SUPPRESS_FD_WARNINGS': '1'}
_PATH = '/usr/sbin:/sbin'

# dmeventd serves one command at a time, and waits for a thin pool whose device
# hangs. There is nothing for it to do: no pool and no snapshot ever grows.
_UNMONITORED = ('--config', 'activation/monitoring=0')

# What the commands of LVM begin with.
_COMMANDS = ('lv', 'vg', 'pv')

#: What commands of LVM are started by, in place of themselves.
wrapper: tuple[str, ...] = ()

_REPORT = (
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

# Where LVM writes in which state the metadata of a physical volume is.
_HEADER_AT = 4096
_HEADER_SIZE = 512
_BLOCK = 4096
_HEADER_MAGIC = b' LVM2 x[5A%r0N*>'

_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_GROUP = re.compile(rf'({re.escape(PREFIX)}{_UUID.pattern})(/.*)?$')
_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9_.+-]{0,62}')


_Result = TypeVar('_Result')


@dataclasses.dataclass(frozen=True)
class Volume:
    """A logical volume; ``name`` is LVM's, ``origin`` that of a snapshot.

    ``size_bytes`` is what can be read of it, not what a snapshot takes.
    """

    name: str
    uuid: str
    tags: frozenset[str]
    size_bytes: int
    origin: str
    thin: bool

    def tag(self, key: str) -> str:
        """Return the value of the tag ``key=value``, '' if there is none."""
        return _value(self.tags, key)

    @property
    def dirty_from(self) -> int | None:
        """The first byte that may be somebody else's yet, None if none is."""
        starts = [tag.partition('=')[2] for tag in self.dirty_tags]
        return min((_number(one) or 0 for one in starts), default=None)

    @property
    def dirty_tags(self) -> list[str]:
        """The tags that say so."""
        return sorted(one for one in self.tags if one.startswith(DIRTY_FROM))

    @property
    def unfinished(self) -> str:
        """Why it may not be used as it is, '' if it may."""
        if DELETED in self.tags:
            return 'is being deleted'
        if INCOMPLETE in self.tags:
            return 'is a clone that is not complete'
        if self.dirty_from is not None:
            return 'is not zeroed yet'
        return ''

    @property
    def vdisk(self) -> VDisk:
        """The vdisk that the volume is."""
        return VDisk(
            self.name[1:] if self.name.startswith('_snapshot') else self.name,
            self.tag(VOLUME),
            self.tag(SERVER) or None,
            self.size_bytes,
            not self.unfinished,
        )


@dataclasses.dataclass(frozen=True)
class Group:
    """A volume group.

    ``size_bytes`` is that of what volumes are allocated from, which is the
    group or its pool, ``free_bytes`` what no volume takes, or may come to
    take, of it. ``seqno`` counts the changes of its metadata; ``mark`` is the
    tag by which what is free in it is known to read as zeros, '' without.
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
    mark: str = dataclasses.field(compare=False)

    @property
    def zeroed(self) -> bool:
        """Whether what is free in it reads as zeros.

        Whoever else makes or removes volumes leaves the mark behind.
        """
        return self.mark == zeroed_mark(self.seqno)

    @property
    def known_devices(self) -> tuple[str, ...]:
        """The devices that are there; LVM has no path for others."""
        return tuple(one for one in self.devices if one.startswith('/'))

    @property
    def trouble(self) -> str:
        """Why it cannot be used at all, '' if it can."""
        if self.exported:
            return 'its volume group is exported'
        if self.partial:
            return 'physical volumes of its volume group are missing'
        return ''

    @property
    def identity(self) -> identity.Identity:
        """Who the disk is.

        :raises DiskError: its tags do not say so.
        """
        fields = {
            'version': identity.VERSION,
            'uuid': _value(self.tags, UUID),
            'medium': _value(self.tags, MEDIUM),
            'mbps': _number(_value(self.tags, MBPS)),
        }
        try:
            return identity.parse(json.dumps(fields))
        except ValueError as error:
            raise exception.DiskError(
                f'tags of volume group {self.name}: {error}'
            ) from error

    @property
    def total_gb(self) -> int:
        """GiB that vdisks may fill, those that are there included."""
        held = sum(volume.size_bytes for volume in self.volumes)
        others = max(0, self.size_bytes - self.free_bytes - held)
        return max(0, self.size_bytes - others - SLACK) // GIB

    @property
    def vdisks(self) -> tuple[VDisk, ...]:
        """The vdisks in it, sorted by name."""
        found = (volume.vdisk for volume in self.volumes)
        return tuple(sorted(found, key=lambda vdisk: vdisk.name))

    def find(self, vdisk: str) -> Volume | None:
        """Return the volume that is a vdisk, None if there is none."""
        name = volume_name(vdisk)
        found = [volume for volume in self.volumes if volume.name == name]
        return found[0] if found else None


def zeroed_mark(seqno: int) -> str:
    """Return the mark of a group whose metadata has a number."""
    return f'{ZEROED}={seqno}'


def group_name(uuid: str) -> str:
    """Return the name of the volume group of a disk.

    :raises DiskError: ``uuid`` is no UUID in its canonical form.
    """
    if not _UUID.fullmatch(uuid):
        raise exception.DiskError(f'{uuid!r} is not the UUID of a disk')
    return PREFIX + uuid


def volume_name(vdisk: str) -> str:
    """Return the name of the logical volume of a vdisk.

    :raises DiskError: it cannot be the name of one.
    """
    if not _NAME.fullmatch(vdisk) or vdisk == POOL:
        raise exception.DiskError(
            f'{vdisk!r} cannot be the name of a vdisk: letters, digits and '
            '_.+- are allowed, 63 in all'
        )
    # names that start so are LVM's own
    return '_' + vdisk if vdisk.startswith('snapshot') else vdisk


def device_path(uuid: str, vdisk: str) -> str:
    """Return the path of a vdisk's device."""
    return f'/dev/{group_name(uuid)}/{volume_name(vdisk)}'


def identity_tags(wanted: identity.Identity) -> list[str]:
    """Return the tags that make a volume group the disk of an identity."""
    return [
        f'{UUID}={wanted.uuid}',
        f'{MEDIUM}={wanted.medium}',
        f'{MBPS}={wanted.mbps}',
    ]


def is_entry(path: str) -> bool:
    """Tell whether an entry of the disk root is a volume group's."""
    target = f'/dev/{PREFIX}{os.path.basename(path)}'
    return os.path.islink(path) and os.readlink(path) == target


def run(*command: str) -> str:
    """Run a command as root and return what it prints.

    One of LVM does not talk to dmeventd, and one about the group of a disk is
    confined to the group's devices.

    :raises DiskError: it cannot be run or fails; has what it complained of.
    """
    named = [_GROUP.match(argument) for argument in command]
    groups = {match[1] for match in named if match}
    confined = _only(_groups.devices(groups.pop())) if len(groups) == 1 else ()
    options = _UNMONITORED if command[0].startswith(_COMMANDS) else ()
    return commands.run(
        *wrapper,
        *command,
        *options,
        *confined,
        environment={
            **os.environ,
            **_ENVIRONMENT,
            'PATH': f'{os.environ.get("PATH", os.defpath)}:{_PATH}',
        },
    )


def let_go(*command: str) -> str:
    """Run a command on volumes that nobody may have open.

    udev has what was just written to open for a moment, which LVM waits for,
    but not for long.

    :raises DiskError: as ``run``; somebody else has them open.
    """
    tries = settlings()
    while True:
        last = next(tries)
        try:
            return run(*command)
        except exception.DiskError:
            if last:
                raise


def settlings() -> collections.abc.Iterator[bool]:
    """Yield False, and again while udev may have a device open, then True.

    Waits for udev in between, but not for long: it does not settle while it
    looks at another disk that hangs.
    """
    ends = time.monotonic() + _PATIENCE
    settled = False
    while not settled and time.monotonic() < ends:
        yield False
        began = time.monotonic()
        with contextlib.suppress(exception.DiskError):
            run('udevadm', 'settle', f'--timeout={_SETTLING}')
        settled = time.monotonic() - began < _SETTLING
    yield True


def parse(text: str) -> dict[str, Group]:
    """Return the groups of a full report of LVM in JSON, by name."""
    groups = (_group(one) for one in json.loads(text)['report'] if 'vg' in one)
    return {group.name: group for group in groups}


class _Hold:
    """Keeps a group for one thread at a time; others do not wait forever."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._since = 0.0

    def __enter__(self) -> None:
        held = time.monotonic() - self._since
        patience = max(0.0, looks.HUNG - held)
        if not self._lock.acquire(blocking=False) and (
            not patience or not self._lock.acquire(timeout=patience)
        ):
            raise exception.DiskHung(
                f'{self._name} is hung: it does not answer'
            )
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Groups:
    """The groups of this host; LVM is asked when they have changed.

    That they have shows in the header of a physical volume's metadata. Where
    the devices of a group are known LVM looks at no others, since one of
    those may hang.

    :param report: returns LVM's report, from these devices only, or from all
        that there are if none is named.
    :param keeper: what keeps the devices of groups for other processes.
    """

    def __init__(
        self,
        report: collections.abc.Callable[[tuple[str, ...]], str],
        keeper: lvm_devices.Keeper | None = None,
    ) -> None:
        self._report = report
        self._keeper = keeper
        self._lock = threading.Lock()
        self._holds: dict[str, _Hold] = {}
        self._groups: dict[str, Group] = {}
        self._headers: dict[str, bytes | None] = {}
        self._devices: lvm_devices.Devices | None = None
        self._all = looks.Look(lambda: parse(report(())))

    def get(self, name: str) -> Group | None:
        """Return a group, None if it is not there.

        It hangs with the devices of the group, and with any device of the
        host while those are not known.

        :raises DiskError: LVM cannot tell.
        :raises DiskHung: somebody else waits for that already and it hangs.
        """
        with self._lock:
            hold = self._holds.setdefault(name, _Hold(name))
        with hold:
            group = self._groups.get(name)
            if group is None or not self._is_current(group):
                group = self._read(name, self.devices(name))
            return group

    def devices(self, name: str) -> tuple[str, ...]:
        """Return the devices that a group was last found on, if it was."""
        with self._lock:
            if self._devices is None:
                self._devices = self._keeper.load() if self._keeper else {}
            return self._devices.get(name, ())

    def _is_current(self, group: Group) -> bool:
        return all(
            self._headers.get(device) is not None
            and self._headers[device] == header(device)
            for device in group.devices
        )

    def _read(self, name: str, devices: tuple[str, ...]) -> Group | None:
        before = {device: header(device) for device in devices}
        group = None
        if any(before.values()):
            group = parse(self._report(devices)).get(name)
        if group is None or group.partial:
            # it may have come to be on other devices
            group = self._find(name)
        if group is None:
            self._groups.pop(name, None)
        else:
            self._groups[name] = group
            for device in group.devices:
                now = header(device)
                same = now == before.get(device)
                self._headers[device] = now if same else None
        return group

    def _find(self, name: str) -> Group | None:
        number = self._all.begin()
        while not self._all.ended(number, looks.HUNG):
            pass
        groups = self._all.seen or {}
        with self._lock:
            found = {one.name: one.known_devices for one in groups.values()}
            if found != self._devices:
                self._devices = found
                if self._keeper:
                    self._keeper.keep(found)
        return groups.get(name)


def header(device: str) -> bytes | None:
    """Return what changes with the metadata on a physical volume.

    None if it has its metadata elsewhere, or cannot be read.
    """
    try:
        found = looks.read_direct(device, _HEADER_AT, _BLOCK)[:_HEADER_SIZE]
    except OSError:
        return None
    # after its checksum
    return found if found[4:].startswith(_HEADER_MAGIC) else None


def report(devices: tuple[str, ...]) -> str:
    """Return LVM's report of the groups that are disks.

    :param devices: where to look for them, everywhere if there are none.
    :raises DiskError: LVM cannot tell.
    """
    return run(*_REPORT, *_only(devices), '@' + TAG)


def _only(devices: tuple[str, ...]) -> tuple[str, ...]:
    return ('--devices', ','.join(devices)) if devices else ()


_groups = Groups(report, lvm_devices.Keeper())

# By the UUID of the disk.
_looks: dict[str, looks.Look[Group | None]] = {}


def find(uuid: str) -> Group | None:
    """Return the volume group of a disk, None if it is not there.

    :raises DiskError: LVM cannot tell.
    """
    return _groups.get(group_name(uuid))


def work_on(uuid: str, work: collections.abc.Callable[[], _Result]) -> _Result:
    """Do what takes the volume group of a disk, as :func:`looks.work_on`.

    :raises DiskError: the disk hangs, or LVM cannot tell.
    """
    look = _looks.setdefault(uuid, looks.Look(lambda: find(uuid)))
    return looks.work_on(look, f'disk {uuid}', work)


def require(uuid: str) -> Group:
    """Return the volume group of a disk, which can be used.

    :raises DiskError: it is not there, or cannot be used; says why.
    """
    group = find(uuid)
    if group is None:
        raise exception.DiskError(
            f'there is no volume group {group_name(uuid)}'
        )
    if group.trouble:
        raise exception.DiskError(f'{group.name}: {group.trouble}')
    return group


def _group(one: dict[str, Any]) -> Group:
    fields = one['vg'][0]
    size, free = int(fields['vg_size']), int(fields['vg_free'])
    volumes = one.get('lv', ())
    pools = [lv for lv in volumes if lv['lv_name'] == POOL]
    pools = [lv for lv in pools if 'pool' in lv['lv_layout'].split(',')]
    held = tuple(_volume(lv) for lv in volumes if lv not in pools)
    if pools:
        # it is filled with what its volumes may grow to, never with more
        size = int(pools[0]['lv_size'])
        free = max(
            0, size - sum(volume.size_bytes for volume in held if volume.thin)
        )
    tags = _tags(fields['vg_tags'])
    marks = frozenset(tag for tag in tags if tag.startswith(ZEROED))
    return Group(
        name=fields['vg_name'],
        tags=tags - marks,
        size_bytes=size,
        free_bytes=free,
        read_only=fields['vg_permissions'] != 'writeable',
        exported=bool(fields['vg_exported']),
        partial=bool(fields['vg_partial']),
        devices=tuple(pv['pv_name'] for pv in one.get('pv', ())),
        thin=bool(pools),
        volumes=tuple(sorted(held, key=lambda volume: volume.name)),
        seqno=int(fields['vg_seqno']),
        mark=min(marks, default=''),
    )


def _volume(fields: dict[str, str]) -> Volume:
    thin = bool(fields['pool_lv'])
    snapshot = not thin and fields['origin']
    return Volume(
        name=fields['lv_name'],
        uuid=fields['lv_uuid'],
        tags=_tags(fields['lv_tags']),
        size_bytes=int(
            fields['origin_size'] if snapshot else fields['lv_size']
        ),
        origin=fields['origin'] if snapshot else '',
        thin=thin,
    )


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split(',')) - {''}


def _value(tags: frozenset[str], key: str) -> str:
    values = [tag[len(key) + 1 :] for tag in tags if tag.startswith(key + '=')]
    return values[0] if len(values) == 1 else ''


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
