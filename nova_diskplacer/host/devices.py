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

"""The block device of a prepared disk, and the devices stacked on it."""

import dataclasses
import os

from nova_diskplacer import constants
from nova_diskplacer.host import sysfs


@dataclasses.dataclass(frozen=True)
class Device:
    """The block device whose queue serves a prepared disk alone.

    ``uuid`` is the disk's UUID, ``name`` the device's name (``sda``),
    ``number`` is ``major:minor``. ``rotational`` is whether the disk's medium
    is hdd. ``mbps`` is the known throughput of the disk in MB/s (10^6
    bytes), 0 if unknown. ``paths`` are the names of the paths of an NVMe disk
    with native multipath, whose head it is.
    """

    uuid: str
    name: str
    number: str
    rotational: bool
    mbps: int = 0
    paths: tuple[str, ...] = ()


def submission_devices(
    device: Device, sys: str = sysfs.SYS
) -> dict[str, bool]:
    """Return the devices that requests for a disk are submitted to.

    They are the tops of the stack of devices on the disk: its device, its
    partitions and the devices on them, unless they have holders. A request is
    submitted to only one of them. The device of a striped vdisk is on several
    disks, so the volumes below it are the tops, and so are those below a leg
    that is moved from one disk to another.

    :returns: whether each device is a logical volume, by ``major:minor``.
    :raises OSError: the device does not exist.
    """
    return _submission_devices(sysfs.device_path(device.name, sys), sys)


def _submission_devices(path: str, sys: str) -> dict[str, bool]:
    devices: dict[str, bool] = {}
    for name in os.listdir(path):
        part = f'{path}/{name}'
        if os.path.exists(f'{part}/partition'):
            above = _submission_devices(part, sys)
            devices.update(above)
            if sysfs.read(f'{part}/dev') in above:
                # Linux before 5.12 traces a partition's requests there
                devices[sysfs.read(f'{path}/dev')] = False
    for name in os.listdir(f'{path}/holders'):
        if _is_on_several_disks(name, sys):
            continue
        devices.update(_submission_devices(sysfs.device_path(name, sys), sys))
    if devices:
        return devices
    volume = sysfs.read_optional(f'{path}/dm/uuid').startswith('LVM-')
    return {sysfs.read(f'{path}/dev'): volume}


def _is_on_several_disks(name: str, sys: str) -> bool:
    path = f'{sysfs.device_path(name, sys)}/dm/uuid'
    return sysfs.read_optional(path).startswith(
        (f'LVM-{constants.STRIPED_DEVICE}', f'LVM-{constants.MOVING_DEVICE}')
    )
