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

"""The measured model of a disk for the linear cost model of io.cost.

The disk itself holds it: in a file beside its identity, or in a tag of its
volume group.
"""

import collections.abc
import dataclasses
import json
import os

from nova_diskplacer import constants
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

# The largest figure of a model: its MB/s fit in an identity.
_MOST = constants.MAX_FIGURE * MB

# Names and order of the kernel for the figures of its model.
COEFFICIENTS = (
    'rbps', 'rseqiops', 'rrandiops', 'wbps', 'wseqiops', 'wrandiops',
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Model:
    """The maximum throughput of a disk for each kind of request alone.

    ``rbps`` and ``wbps`` are bytes per second of long sequential reads and
    writes. The other rates are requests of 4 KiB per second, many at a time.
    ``latency`` is that of a single random read of 4 KiB, in microseconds.
    ``scheduler`` is the I/O scheduler at that time, '' if unknown, and
    ``measured`` the time in UTC. ``source`` names where figures come from that
    were not measured by fio here.
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
    source: str = ''

    @property
    def mbps(self) -> int:
        """MB/s that may be claimed, the lower of reads and writes."""
        return max(1, round(min(self.rbps, self.wbps) / MB))


def load(disk_root: str, uuid: str) -> Model | None:
    """Return the model of a disk, None if it was never measured.

    :raises DiskError: the disk is missing, or its model is malformed.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        where = f'tag {TAG} of volume group {naming.group_name(uuid)}'
        text = naming.value(groups.require(uuid).tags, TAG)
    else:
        where = os.path.join(discover.require_mounted(disk_root, uuid), FILE)
        try:
            with open(where, encoding='utf-8', errors='replace') as stream:
                text = stream.read().strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise exception.DiskError(f'{where}: {error}') from error
    try:
        return parse(text) if text else None
    except ValueError as error:
        raise exception.DiskError(
            f'{where}: {error}; measure the disk again'
        ) from error


def save(disk_root: str, uuid: str, model: Model) -> None:
    """Save a model on its disk, and its MB/s in the disk's identity.

    Both are durable on return. The identity changes last.

    :raises DiskError: the disk is missing, or refuses.
    """
    if discover.kind_of(disk_root, uuid) == discover.LVM:
        group = groups.require(uuid)
        changed = dataclasses.replace(group.identity, mbps=model.mbps)
        changing = (TAG + '=', naming.MBPS + '=')
        group_changes.replace_tags(
            uuid,
            {tag for tag in group.tags if tag.startswith(changing)},
            {f'{TAG}={to_text(model)}', *naming.identity_tags(changed)},
        )
        return
    path = discover.require_mounted(disk_root, uuid)
    with files.disk_errors(path):
        before = identity.read(path)
        assert before is not None  # noqa: S101
        files.replace(
            os.path.join(path, FILE), to_text(model) + '\n', durable=True
        )
        if before.mbps != model.mbps:
            identity.write(path, dataclasses.replace(before, mbps=model.mbps))


def to_text(model: Model) -> str:
    """Return the text of a model, which is valid in a tag of LVM."""
    fields = dataclasses.asdict(model)
    return '/'.join(f'{name}={value}' for name, value in fields.items())


def parse(text: str) -> Model:
    """Return the model of a text.

    :raises ValueError: the text is malformed.
    """
    return _from_fields(
        dict(field.partition('=')[::2] for field in text.split('/'))
    )


def read_file(path: str) -> Model:
    """Return the model of a file.

    The file is the output of ``diskplacer-manage disk measure --format json``
    for one disk, or has ``rbps=...`` and the other coefficients as in
    ``io.cost.model``.

    :raises DiskError: the file cannot be read, or has no model.
    """
    with files.disk_errors(path), open(path, encoding='utf-8') as stream:
        text = stream.read()
    try:
        try:
            fields = _parse_json(text)
        except json.JSONDecodeError:
            return parse_coefficients(text)
        return _from_fields(fields)
    except ValueError as error:
        raise exception.DiskError(f'{path}: {error}') from error


def parse_coefficients(text: str) -> Model:
    """Return the model of a text with coefficients as in ``io.cost.model``.

    They have no latency: it is estimated to be that of random reads at full
    rate.

    :raises ValueError: the text is malformed.
    """
    words = (word.partition('=') for word in text.split())
    fields = {name: value for name, sign, value in words if sign}
    rate = fields.get('rrandiops', '')
    if rate.isdecimal() and int(rate):
        fields.setdefault('latency', str(max(1, 10**6 // int(rate))))
    return _from_fields(fields)


def _parse_json(text: str) -> dict[str, str]:
    models = json.loads(text)
    if not isinstance(models, list) or len(models) != 1:
        return {}
    (fields,) = models
    if not isinstance(fields, dict):
        return {}
    return {name: str(value) for name, value in fields.items()}


def _from_fields(fields: collections.abc.Mapping[str, str]) -> Model:
    figures = {}
    for name in (*COEFFICIENTS, 'latency'):
        value = fields.get(name, '')
        if not value.isdecimal() or not 1 <= int(value) <= _MOST:
            raise ValueError(
                f'{name} {value!r} is not an integer from 1 to {_MOST}'
            )
        figures[name] = int(value)
    return Model(
        **figures,
        scheduler=fields.get('scheduler', ''),
        measured=fields.get('measured', ''),
        source=fields.get('source', ''),
    )
