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

"""Commands of the device mapper for the devices of striped vdisks.

LVM's commands get the devices of a group; these devices are on several. Every
function raises DiskError if the command fails.
"""

import collections.abc
import os

from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.host import files

SECTOR = 512


def create(path: str, table: collections.abc.Iterable[str]) -> None:
    """Make a device.

    :param table: the lines of its table.
    """
    device = os.path.basename(path)
    fields = (device, f'LVM-{device}', '', 'rw', *table)
    create = 'dmsetup', 'create', '--concise', ','.join(fields)
    try:
        commands.run(*create)
    except exception.DiskError:
        # a killed command leaves a device without a table and a path
        commands.run('dmsetup', 'remove', device)
        commands.run(*create)


def reload(
    path: str, table: collections.abc.Iterable[str], *options: str
) -> None:
    """Replace the table of a device, which may be in use.

    The kernel holds requests back in between. The last command does all of
    it, so a process that is killed leaves no device suspended.

    :param options: of the last command.
    """
    load(path, table)
    resume(path, *options)


def load(path: str, table: collections.abc.Iterable[str]) -> None:
    """Give a device the table that it uses once it is resumed."""
    device = os.path.basename(path)
    commands.run('dmsetup', 'load', '--table', '\n'.join(table), device)


def resume(path: str, *options: str) -> None:
    """Put the loaded table of a device in use."""
    device = os.path.basename(path)
    commands.run('dmsetup', 'resume', '--nolockfs', *options, device)


def remove(path: str) -> None:
    """Remove a device, if it exists.

    :raises DiskError: a process has it open.
    """
    device = os.path.basename(path)
    if os.path.exists(path):
        commands.run('dmsetup', 'resume', device)
        commands.run_retry_udev('dmsetup', 'remove', device)


def is_open(path: str) -> bool:
    """Return whether a process or another device has a device open."""
    if not os.path.exists(path):
        return False
    columns = '--columns', '--noheadings', '--options', 'open'
    return commands.run('dmsetup', 'info', *columns, path).strip() != '0'


def number(path: str) -> str:
    """Return the number of a device, as tables name it.

    :raises DiskError: there is no such device.
    """
    with files.disk_errors(path):
        device = os.stat(path).st_rdev
    return f'{os.major(device)}:{os.minor(device)}'


def table(path: str) -> str:
    """Return the table of a device."""
    return commands.run('dmsetup', 'table', os.path.basename(path))


def status(path: str) -> str:
    """Return the status of a device."""
    return commands.run('dmsetup', 'status', os.path.basename(path))
