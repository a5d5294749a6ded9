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

"""Finds, reads and writes the request queue of a disk in sysfs.

Functions that get the name of a device raise OSError if it does not exist, or
the kernel refuses.
"""

import collections.abc
import contextlib
import dataclasses
import os
import re

from nova_diskplacer import exception
from nova_diskplacer.host import sysfs

SCHEDULER = 'scheduler'
REQUESTS = 'nr_requests'
WBT = 'wbt_lat_usec'
#: Settings that depend on no other.
INDEPENDENT = ('max_sectors_kb', 'read_ahead_kb', 'nomerges', 'rq_affinity')

# Attributes of a queue in sysfs, in the order of writing: a new scheduler
# resets those after it, and a new max_sectors_kb resets read_ahead_kb.
SETTINGS = (SCHEDULER, REQUESTS, WBT, *INDEPENDENT)

# Those of the head of an NVMe disk with native multipath that have an effect:
# its paths queue the requests.
_OF_HEADS = ('max_sectors_kb', 'read_ahead_kb')

Values = collections.abc.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Queue:
    """The request queue of a whole block device.

    ``device`` is the device's name. ``sequence`` is its disk sequence number,
    which no other device has had since boot; '' with kernels before 5.15.
    ``schedulers`` are those that the kernel offers. ``depth`` is the number
    of requests that the device can queue, None if unknown. ``values`` lacks
    settings that the queue does not have.
    """

    device: str
    sequence: str
    schedulers: tuple[str, ...]
    depth: int | None
    values: Values


def exclusive_device(device: str, sys: str = sysfs.SYS) -> str:
    """Return the name of the device whose queue serves ``device`` alone.

    I/O of a partition passes the queue of its disk; I/O of a device on
    another one (dm-crypt, LVM) passes the queue of the lower one. An NVMe disk
    with native multipath is named by its head.

    :param device: path of the device node of a prepared disk, or of the
        physical volume below it.
    :raises DiskError: there is no such queue, or it also serves other
        devices, which the message names.
    """
    if not device:
        raise exception.DiskError('its block device is not known')
    path = sysfs.device_path(os.path.basename(device), sys)
    part = None
    while True:
        if not os.path.isdir(path):
            raise exception.DiskError(f'{path} does not exist')
        if os.path.exists(f'{path}/partition'):
            part, path = path, os.path.dirname(path)
            _require_exclusive(device, path, 'holders', _list(path, 'holders'))
            continue
        below = sysfs.lower_devices(path, sys)
        if not below or sysfs.nvme_paths(path):
            break
        if len(below) > 1:
            names = ', '.join(map(os.path.basename, below))
            raise exception.DiskError(
                f'{device} is built on several devices: {names}'
            )
        upper, path = path, below[0]
        others = set(_list(path, 'holders')) - {os.path.basename(upper)}
        _require_exclusive(device, path, 'holders', sorted(others))
        part = None
    partitions = [
        name
        for name in sorted(os.listdir(path))
        if os.path.exists(f'{path}/{name}/partition')
        and f'{path}/{name}' != part
    ]
    _require_exclusive(device, path, 'partitions', partitions)
    if not os.path.isdir(f'{path}/queue'):
        raise exception.DiskError(f'{path} has no queue')
    if path in _below_root(sys):
        raise exception.DiskError(f'{path} is the disk of the root filesystem')
    return os.path.basename(path)


def read(device: str, sys: str = sysfs.SYS) -> Queue:
    """Return a device's queue.

    :raises TimeoutError: the device hangs while somebody changes its queue.
    """
    path = sysfs.device_path(device, sys)
    os.stat(f'{path}/queue')
    return sysfs.run_for_device(
        device, f'{path}/queue', lambda: _read(device, path)
    )


def read_setting(device: str, name: str, sys: str = sysfs.SYS) -> str:
    """Return an attribute of a device's queue as the kernel writes it.

    :raises TimeoutError: the device hangs while somebody changes its queue.
    """
    path = f'{sysfs.device_path(device, sys)}/queue/{name}'
    return sysfs.run_for_device(device, path, lambda: sysfs.read(path))


def _read(device: str, path: str) -> Queue:
    values = {}
    for setting in _OF_HEADS if sysfs.nvme_paths(path) else SETTINGS:
        with contextlib.suppress(OSError):
            values[setting] = sysfs.read(f'{path}/queue/{setting}')
    listed = values.pop(SCHEDULER, '')
    chosen = re.search(r'\[(.+?)\]', listed)
    if chosen:
        values[SCHEDULER] = chosen[1]
    depth = sysfs.read_optional(f'{path}/mq/0/nr_tags')
    return Queue(
        device,
        sysfs.read_optional(f'{path}/diskseq'),
        tuple(re.findall(r'[\w-]+', listed)) if chosen else (),
        int(depth) if depth else None,
        values,
    )


def diskseq(device: str, sys: str = sysfs.SYS) -> str:
    """Return the disk sequence number of a device, '' with old kernels."""
    path = sysfs.device_path(device, sys)
    os.stat(f'{path}/dev')
    return sysfs.read_optional(f'{path}/diskseq')


def device_number(device: str, sys: str = sysfs.SYS) -> str:
    """Return the number of a device, as ``major:minor``."""
    return sysfs.read(f'{sysfs.device_path(device, sys)}/dev')


def write(device: str, setting: str, value: str, sys: str = sysfs.SYS) -> None:
    """Change a setting of a device's queue."""
    sysfs.write_to_device(
        device, f'{sysfs.device_path(device, sys)}/queue/{setting}', value
    )


def _list(path: str, what: str) -> list[str]:
    try:
        return sorted(os.listdir(f'{path}/{what}'))
    except FileNotFoundError:
        return []


def _require_exclusive(
    device: str, path: str, what: str, others: list[str]
) -> None:
    if others:
        raise exception.DiskError(
            f'{device} shares the queue of {os.path.basename(path)} with '
            f'other {what}: {", ".join(others)}'
        )


def _below_root(sys: str) -> set[str]:
    """Return the paths in sysfs of all devices below ``/``."""
    number = os.stat('/').st_dev
    link = f'{sys}/dev/block/{os.major(number)}:{os.minor(number)}'
    return _with_lower(os.path.realpath(link), sys)


def _with_lower(path: str, sys: str) -> set[str]:
    below = sysfs.lower_devices(path, sys)
    return {path}.union(*(_with_lower(lower, sys) for lower in below))
