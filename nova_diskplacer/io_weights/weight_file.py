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

"""Reads and writes weight files of cgroups: a default and device weights."""

from nova_diskplacer.host import sysfs

DEFAULT = 'default'


def read(path: str, number: str) -> str:
    """Return a device's weight, ``default`` if it has none of its own.

    :param number: ``major:minor`` of the device, or ``default``.
    :raises OSError: the file cannot be read.
    """
    with open(path, encoding='ascii') as stream:
        for line in stream:
            device, _, value = line.strip().partition(' ')
            if device == number:
                return value
    return DEFAULT


def write(path: str, number: str, value: str) -> None:
    """Set a device's weight; ``default`` removes it.

    :raises OSError: the kernel refuses.
    """
    sysfs.write_to_device(number, path, f'{number} {value}')
