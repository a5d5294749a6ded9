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

"""Reads the models of drives in the hardware database of udev.

systemd has udev properties for io.cost since version 254, "solutions" of
cost model and latency targets: see iocost.conf(5). They come from the project
iocost-benchmarks, which publishes measurements of drives as a file for the
database.
"""

import dataclasses

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import commands
from nova_diskplacer.host import sysfs

SOURCE = 'hwdb'

# The solution "naive" has the rates that fio measured on the drive. The other
# solutions lower them for the sake of latencies.
_MODEL = 'IOCOST_MODEL_NAIVE'


def read_model(disk: discover.Disk) -> io_model.Model:
    """Return the model that the hardware database has for a disk's drive.

    :raises DiskError: it has none, or a malformed one, or the disk is not on a
        drive of its own.
    """
    device = block_queue.exclusive_device(disk.device)
    text = commands.run(
        'udevadm', 'info', '--query=property',
        f'--path={sysfs.device_path(device)}',
    )  # fmt: skip
    properties = dict(line.partition('=')[::2] for line in text.splitlines())
    if _MODEL not in properties:
        raise exception.DiskError(
            f'no iocost solution for disk {disk.uuid}, a drive of model '
            f'{disk.model!r}: udev has no property {_MODEL} of {device} from '
            "systemd's hwdb; measure the disk"
        )
    try:
        model = io_model.parse_coefficients(properties[_MODEL])
    except ValueError as error:
        raise exception.DiskError(f'{_MODEL} of {device}: {error}') from error
    return dataclasses.replace(model, source=SOURCE)
