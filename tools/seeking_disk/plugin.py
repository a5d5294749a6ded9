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

"""A plugin of nbdkit: a network block device that takes as long as a disk.

    nbdkit python tools/seeking_disk/plugin.py size=8G kind=hdd cache=64M

``kind`` is ``hdd`` or ``ssd``; ``cache`` is the write-back cache of an hdd,
0 by default; with ``slower=4`` an hdd takes four times as long. What is on the
disk is in a file without a name; zeros are holes in it, so that this machine's
own disk does not slow large ones down.
"""

import ctypes
import os
import pathlib
import sys
import tempfile
import typing

import nbdkit

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from tools.seeking_disk import model  # noqa: E402
from tools.seeking_disk import server  # noqa: E402

API_VERSION = 2

# fallocate(2): FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE
_PUNCH_HOLE = 0x01 | 0x02

_libc = ctypes.CDLL(None, use_errno=True)
_settings = {'size': '8G', 'kind': 'hdd', 'cache': '0', 'slower': '1'}


def config(key: str, value: str) -> None:
    """Take an argument of the command line."""
    if key not in _settings:
        raise ValueError(f'{key} is not one of: {", ".join(_settings)}')
    _settings[key] = value


def thread_model() -> int:
    """Have requests wait for the disk, not for each other."""
    return typing.cast(int, nbdkit.THREAD_MODEL_PARALLEL)


class _Device:
    """The one disk that all connections share."""

    def __init__(self) -> None:
        self.size = nbdkit.parse_size(_settings['size'])
        self.server: server.Server
        if _settings['kind'] == 'hdd':
            self.server = server.HardDiskServer(
                model.HardDisk(self.size).slowed(float(_settings['slower'])),
                nbdkit.parse_size(_settings['cache']),
            )
        elif _settings['kind'] == 'ssd':
            self.server = server.SolidStateServer(
                model.SolidStateDisk(self.size)
            )
        else:
            raise ValueError(f'kind={_settings["kind"]} is not hdd or ssd')
        self.file = tempfile.TemporaryFile(dir='/var/tmp')
        self.file.truncate(self.size)


_devices: list[_Device] = []


def after_fork() -> None:
    """Make the disk: threads do not survive a fork."""
    _devices.append(_Device())


def open(readonly: bool) -> _Device:
    """Return the disk."""
    return _devices[0]


def get_size(device: _Device) -> int:
    """Return the size of the disk in bytes."""
    return typing.cast(int, device.size)


def can_multi_conn(device: _Device) -> bool:
    """Say that a flush is one of all connections."""
    return True


def pread(device: _Device, buffer: bytearray, offset: int, flags: int) -> None:
    """Read as the disk would."""
    device.server.serve(offset, len(buffer), False)
    buffer[:] = os.pread(device.file.fileno(), len(buffer), offset)


def pwrite(device: _Device, buffer: bytes, offset: int, flags: int) -> None:
    """Write as the disk would."""
    device.server.serve(offset, len(buffer), True)
    if buffer == bytes(len(buffer)):
        _punch_hole(device.file.fileno(), offset, len(buffer))
    else:
        os.pwrite(device.file.fileno(), buffer, offset)


def flush(device: _Device, flags: int) -> None:
    """Flush as the disk would."""
    device.server.flush()


def _punch_hole(file: int, offset: int, length: int) -> None:
    done = _libc.fallocate(
        file, _PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(length)
    )
    if done:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
