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

"""How fast a disk is, as the linear model of io.cost has it.

What was measured is kept on the disk itself, beside its identity: in a file,
or in a tag of its volume group.
"""

import dataclasses
import os

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import identity
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import files

FILE = '.diskplacer-io-model'
TAG = 'diskplacer.io_model'

MB = 10**6

# What the kernel calls the figures of its model, in its order.
COEFFICIENTS = (
    'rbps', 'rseqiops', 'rrandiops', 'wbps', 'wseqiops', 'wrandiops',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Model:
    """What a disk does at most, doing one thing at a time.

    Bytes per second of long sequential reads and writes, and requests of
    4 KiB per second, sequential and random, many at a time. ``latency`` is
    that of a random read of 4 KiB on its own, in microseconds. ``scheduler``
    is the I/O scheduler that the disk had, ``measured`` the time in UTC.
    """

    rbps: int
    rseqiops: int
    rrandiops: int
    wbps: int
    wseqiops: int
    wrandiops: int
    latency: int
    scheduler: str = ''
    measured: str = ''

    @property
    def mbps(self) -> int:
        """MB/s that may be claimed: of reads or writes, the slower."""
        return max(1, round(min(self.rbps, self.wbps) / MB))


def load(disk_root: str, uuid: str) -> Model | None:
    """Return the model of a disk, None if it was never measured.

    :raises DiskError: the disk is missing, or what it carries is malformed.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        found = [
            tag.removeprefix(TAG + '=')
            for tag in groups.require(uuid).tags
            if tag.startswith(TAG + '=')
        ]
        where = f'tag {TAG} of volume group {naming.group_name(uuid)}'
    else:
        where = os.path.join(discover.locate(disk_root, uuid), FILE)
        found = _lines(where)
    try:
        return parse(found[0]) if found else None
    except ValueError as error:
        raise exception.DiskError(
            f'{where}: {error}; measure the disk again'
        ) from error


def save(disk_root: str, uuid: str, model: Model) -> None:
    """Keep a model on its disk, and have its MB/s be what may be claimed.

    Durable on return. The MB/s come last: a run that was killed before has
    left them as they were.

    :raises DiskError: the disk is missing, or refuses.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        _tag(uuid, model)
        return
    path = discover.locate(disk_root, uuid)
    try:
        known = identity.read(path)
        assert known is not None  # noqa: S101
        files.replace(
            os.path.join(path, FILE), text(model) + '\n', durable=True
        )
        if known.mbps != model.mbps:
            identity.write(path, dataclasses.replace(known, mbps=model.mbps))
    except OSError as error:
        raise exception.DiskError(f'{path}: {error.strerror}') from error


def text(model: Model) -> str:
    """Return a model as it is kept, which a tag of LVM can be."""
    fields = dataclasses.asdict(model)
    return '/'.join(f'{name}={value}' for name, value in fields.items())


def parse(kept: str) -> Model:
    """Return the model that was kept.

    :raises ValueError: it is malformed; says how.
    """
    fields = dict(field.partition('=')[::2] for field in kept.split('/'))
    figures = {}
    for name in (*COEFFICIENTS, 'latency'):
        value = fields.get(name, '')
        if not value.isdecimal() or int(value) < 1:
            raise ValueError(f'{name} {value!r} is not a positive integer')
        figures[name] = int(value)
    return Model(
        **figures,
        scheduler=fields.get('scheduler', ''),
        measured=fields.get('measured', ''),
    )


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding='utf-8') as stream:
            return stream.read().split()
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise exception.DiskError(f'{path}: {error}') from error


def _tag(uuid: str, model: Model) -> None:
    group = groups.require(uuid)
    wanted = dataclasses.replace(group.identity, mbps=model.mbps)
    group_changes.replace_tags(
        uuid,
        {
            tag
            for tag in group.tags
            if tag.startswith((TAG + '=', naming.MBPS + '='))
        },
        {f'{TAG}={text(model)}', *naming.identity_tags(wanted)},
    )
