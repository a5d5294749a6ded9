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

"""What makes the kernel honour I/O weights on a disk, if anything does.

A weight that nothing honours is accepted by the kernel all the same, so that
it is asked before one is set.
"""

import dataclasses
import os

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device

BFQ = 'bfq'
IO_COST = 'io.cost'
AUTO = 'auto'

_BFQ_V1 = 'blkio.bfq.weight_device'
_BFQ_V2 = 'io.bfq.weight'
_IO_WEIGHT = 'io.weight'

# The kernel's least weight and its default: a weight is never raised.
_LOWEST = 1
_DEFAULT = 100

_SCHEDULER = 'queue/scheduler'
_SLICE_IDLE = 'queue/iosched/slice_idle'
_QOS = 'io.cost.qos'


@dataclasses.dataclass(frozen=True)
class Controller:
    """What honours weights on a disk.

    ``lo`` is the least weight that it takes, ``top`` the kernel's default,
    ``file`` the name of the file with the weights in each cgroup.
    """

    name: str
    lo: int
    top: int
    file: str


#: Weights by io.cost, wherever it is enabled.
BY_IO_COST = Controller(IO_COST, _LOWEST, _DEFAULT, _IO_WEIGHT)


def honoured(
    device: Device,
    hierarchy: cgroups.Hierarchy,
    choice: str,
    sys: str = sysfs.SYS,
) -> Controller:
    """Return what honours weights on a disk now.

    :param choice: ``[diskplacer_weights] controller``.
    :raises ContentionError: nothing does that may; says what to do.
    """
    scheduler = _scheduler(device.name, sys)
    if chosen(device, choice, sys) == BFQ:
        if scheduler != BFQ:
            raise exception.ContentionError(
                f'{_lacks(device, scheduler)} and [diskplacer_weights] '
                'controller=bfq: choose bfq for it (a profile, a udev rule), '
                'or controller=auto'
            )
        if _read(device.name, _SLICE_IDLE, sys).strip() == '0':
            raise exception.ContentionError(
                f'the I/O scheduler of {device.name} is bfq with slice_idle '
                '0, which next to disregards weights: set '
                f'/sys/block/{device.name}/queue/iosched/slice_idle to 8, its '
                'default'
            )
        return _bfq(hierarchy)
    if hierarchy.version == 1:
        raise exception.ContentionError(
            f'{_lacks(device, scheduler)} and cgroup v1 has no io.cost: '
            'choose bfq for it (a profile, a udev rule), or boot with cgroup '
            'v2'
        )
    _check_io_cost(device, hierarchy, scheduler)
    return BY_IO_COST


def chosen(device: Device, choice: str, sys: str = sysfs.SYS) -> str:
    """Return the name of the controller that is to honour weights on a disk.

    :param choice: ``[diskplacer_weights] controller``.
    """
    if choice != AUTO:
        return choice
    return BFQ if _scheduler(device.name, sys) == BFQ else IO_COST


def _bfq(hierarchy: cgroups.Hierarchy) -> Controller:
    name = _BFQ_V1 if hierarchy.version == 1 else _BFQ_V2
    return Controller(BFQ, _LOWEST, _DEFAULT, name)


def shown(hierarchy: cgroups.Hierarchy) -> tuple[str, ...]:
    """Return where libvirt reads the weight of a domain: the first there."""
    if hierarchy.version == 1:
        return (_BFQ_V1,)
    return (_BFQ_V2, _IO_WEIGHT)


def devices(
    file: str, hierarchy: cgroups.Hierarchy, sys: str = sysfs.SYS
) -> set[str]:
    """Return the devices, by ``major:minor``, that honour a file's weights.

    :raises ContentionError: a device has gone just now.
    :raises OSError: the kernel does not tell.
    """
    if file == _IO_WEIGHT:
        return _with_io_cost(hierarchy)
    return {
        _read(name, 'dev', sys).strip()
        for name in os.listdir(f'{sys}/class/block')
        # partitions have no queue of their own
        if os.path.exists(f'{sys}/class/block/{name}/{_SCHEDULER}')
        and _scheduler(name, sys) == BFQ
        # a drive without a medium, a loop device without a file
        and _read(name, 'size', sys).strip() != '0'
    }


def _with_io_cost(hierarchy: cgroups.Hierarchy) -> set[str]:
    with open(hierarchy.path('', _QOS), encoding='ascii') as stream:
        lines = [line.split() for line in stream]
    return {
        number
        for number, *fields in filter(None, lines)
        if 'enable=1' in fields
    }


def _check_io_cost(
    device: Device, hierarchy: cgroups.Hierarchy, scheduler: str
) -> None:
    try:
        enabled = _with_io_cost(hierarchy)
    except FileNotFoundError as error:
        raise exception.ContentionError(
            f'{_lacks(device, scheduler)} and the kernel has no io.cost '
            f'({error.filename} is not there): choose bfq for it (a profile, '
            'a udev rule), or boot a kernel with CONFIG_BLK_CGROUP_IOCOST'
        ) from None
    if device.number not in enabled:
        raise exception.ContentionError(
            f'io.cost is not enabled for {device.name} and its I/O scheduler '
            f'is {scheduler}: measure the disk, diskplacer-manage disk '
            f'measure {device.uuid}, or choose bfq for it (a profile, a udev '
            'rule)'
        )


def _lacks(device: Device, scheduler: str) -> str:
    return f'the I/O scheduler of {device.name} is {scheduler}, not bfq,'


def _scheduler(name: str, sys: str) -> str:
    listed = _read(name, _SCHEDULER, sys)
    # without brackets there is a single one, none
    return listed.partition('[')[2].partition(']')[0] or listed.strip()


def _read(name: str, file: str, sys: str) -> str:
    path = f'{sys}/class/block/{name}/{file}'
    try:
        with open(path, encoding='ascii') as stream:
            return stream.read()
    except OSError as error:
        raise exception.ContentionError(f'{path}: {error.strerror}') from error
