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

"""Finds the block devices below prepared disks."""

import collections.abc
import os

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device


def find(
    disks: collections.abc.Iterable[discover.Disk], sys: str = sysfs.SYS
) -> tuple[dict[str, Device], dict[str, str]]:
    """Return the devices of disks, and the reasons why disks have none.

    Both are by the disk's UUID.
    """
    found, missing = {}, {}
    for disk in disks:
        if disk.health in discover.UNAVAILABLE and not disk.device:
            missing[disk.uuid] = f'the disk is {disk.health}'
            continue
        try:
            found[disk.uuid] = _device(disk, sys)
        except (exception.DiskError, OSError) as error:
            missing[disk.uuid] = str(error)
    return found, missing


def _device(disk: discover.Disk, sys: str) -> Device:
    name = block_queue.exclusive_device(disk.device, sys)
    number = block_queue.device_number(name, sys)
    major, minor = number.split(':')
    block = sysfs.find_by_number(os.makedev(int(major), int(minor)), sys)
    return Device(disk.uuid, name, number, block.rotational, disk.mbps)
