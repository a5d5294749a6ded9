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

"""Finds the kernel's I/O controller that honours weights on a disk.

The kernel accepts weights even where no controller honours them.
"""

import dataclasses
import os

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.profiles import queue_policy

BFQ = queue_policy.BFQ
IO_COST = queue_policy.IO_COST

#: The kernel's minimum and default; weights are never above the default.
MIN_WEIGHT = 1
DEFAULT_WEIGHT = 100

IO_COST_QOS = 'io.cost.qos'

_MODULES = '/lib/modules'
_BFQ_MODULE = '/bfq.ko'

_BFQ_ON_FLASH = (
    'BFQ keeps a disk idle to wait for a server, which costs a solid state '
    'disk throughput; io.cost works with any I/O scheduler'
)


@dataclasses.dataclass(frozen=True)
class Controller:
    """A controller that honours weights.

    ``file`` is the name of the weight file in each cgroup.
    """

    name: str
    file: str


#: BFQ, on disks that have it as their I/O scheduler.
BFQ_CONTROLLER = Controller(BFQ, 'io.bfq.weight')
#: io.cost, on disks where it is enabled.
IO_COST_CONTROLLER = Controller(IO_COST, 'io.weight')


def active_controller(
    device: Device,
    hierarchy: cgroups.Hierarchy,
    choice: str,
    sys: str = sysfs.SYS,
) -> Controller:
    """Return the controller that honours weights on a disk now.

    :param choice: ``[diskplacer_weights] controller``.
    :raises ContentionError: the configured controller is not active; the
        message names remedies.
    :raises OSError: the device is gone.
    """
    scheduler = scheduler_of(device, sys)
    if configured_controller(device, choice, sys) == BFQ:
        if scheduler != BFQ:
            raise exception.ContentionError(
                f'the I/O scheduler of {device.name} is {scheduler}, and I/O '
                f'weights need bfq {_why_bfq(device)}: the agent sets it with '
                '[diskplacer_agent] queue_tuning=on where the kernel has it '
                '(CONFIG_IOSCHED_BFQ); or set it yourself, by a udev rule'
            )
        slice_idle = 'iosched/slice_idle'
        if block_queue.read_setting(device.name, slice_idle, sys) == '0':
            raise exception.ContentionError(
                f'the I/O scheduler of {device.name} is bfq with slice_idle '
                '0, which makes weights almost ineffective: set '
                f'/sys/block/{device.name}/queue/iosched/slice_idle to 8, its '
                'default'
            )
        return BFQ_CONTROLLER
    _check_io_cost(device, hierarchy, scheduler)
    return IO_COST_CONTROLLER


def configured_controller(
    device: Device, choice: str, sys: str = sysfs.SYS
) -> str:
    """Return the name of the controller that should honour weights on a disk.

    :param choice: ``[diskplacer_weights] controller``.
    :raises ContentionError: no controller can honour weights on it, or the
        configured one is refused there.
    :raises OSError: the device is gone.
    """
    if device.paths:
        raise exception.ContentionError(
            f'{device.name} is an NVMe disk with native multipath, whose '
            'queue no request passes: boot with nvme_core.multipath=N'
        )
    medium = medium_of(device)
    queue_policy.check_controller(medium, choice)
    if queue_policy.needs_bfq(medium, choice):
        return BFQ
    if choice == IO_COST:
        return IO_COST
    return BFQ if scheduler_of(device, sys) == BFQ else IO_COST


def advice(device: Device, controller: str) -> str:
    """Return why another controller is better for a disk, '' if none is."""
    return _BFQ_ON_FLASH if controller == BFQ and not device.rotational else ''


def medium_of(device: Device) -> str:
    """Return the medium of a disk, hdd or ssd."""
    return constants.HDD if device.rotational else constants.SSD


def scheduler_of(device: Device, sys: str = sysfs.SYS) -> str:
    """Return the name of a disk's I/O scheduler.

    :raises OSError: the device is gone.
    """
    listed = block_queue.read_setting(device.name, block_queue.SCHEDULER, sys)
    # a single scheduler (none) is listed without brackets
    return listed.partition('[')[2].partition(']')[0] or listed


def kernel_has_bfq(device: Device, sys: str = sysfs.SYS) -> bool:
    """Return whether BFQ is there, or a module that the kernel would load.

    :raises OSError: the device is gone.
    """
    if BFQ in block_queue.read(device.name, sys).schedulers:
        return True
    modules = f'{_MODULES}/{os.uname().release}/modules.dep'
    try:
        with open(modules, encoding='utf-8') as stream:
            return any(_BFQ_MODULE in line for line in stream)
    except OSError:
        return False


def _check_io_cost(
    device: Device, hierarchy: cgroups.Hierarchy, scheduler: str
) -> None:
    try:
        with open(hierarchy.path('', IO_COST_QOS), encoding='ascii') as stream:
            enabled = {
                line.split()[0] for line in stream if 'enable=1' in line
            }
    except FileNotFoundError as error:
        raise exception.ContentionError(
            f'the kernel has no io.cost ({error.filename} does not exist) for '
            f'{device.name}, whose I/O scheduler is {scheduler}: choose bfq '
            'for it (a profile, a udev rule), or boot a kernel with '
            'CONFIG_BLK_CGROUP_IOCOST'
        ) from None
    if device.number not in enabled:
        raise exception.ContentionError(
            f'io.cost is not enabled for {device.name} and its I/O scheduler '
            f'is {scheduler}: measure the disk, diskplacer-manage disk '
            f'measure {device.uuid}'
        )


def _why_bfq(device: Device) -> str:
    if device.rotational:
        return 'on a hard disk'
    return 'with [diskplacer_weights] controller=bfq'
