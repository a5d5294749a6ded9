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

"""Traces requests to block devices with the kernel's tracefs.

The agent uses an instance of tracefs, which has separate buffers, events and
options: it does not affect other users of tracing.
"""

import collections.abc
import contextlib
import dataclasses
import os
import re
import time

import psutil

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import sysfs

# The event of a bio's submission: it comes from the submitting thread, before
# the bio waits. Later events may come from a kernel thread.
_EVENT = 'block_bio_queue'

# The options for lines in the format of _LINE: an instance begins with the
# global options.
_OPTIONS = {
    'bin': '0',
    'fields': '0',
    'hex': '0',
    'latency-format': '0',
    'raw': '0',
    'verbose': '0',
    'context-info': '1',
    'record-tgid': '1',
}

# name-thread (process) [CPU] flags time: event: device kind start + length
_LINE = re.compile(
    r'-(\d+)\s+\(\s*(\d+|-+)\)\s+\[\d+\]\s+(?:\S+\s+)?[\d.]+: '
    rf'{_EVENT}: (\d+),(\d+) (\w+) (\d+) \+ (\d+) '
)

# KiB for each CPU: about 2,000 requests, which are read continuously.
_BUFFER = '128'

# Seconds between two reads.
_PAUSE = 0.1

# The maximum of devices listed in a filter, which must fit in a page.
_MAX_LISTED = 100

_SECTOR = 512


@dataclasses.dataclass(frozen=True)
class Request:
    """A read or write of ``length`` bytes at the byte ``start`` of a device.

    ``device`` is ``major:minor``. ``process`` is the process of the thread
    that submitted it, even if the thread is gone, or the thread's ID if the
    kernel does not know the process.
    """

    device: str
    process: int
    start: int
    length: int


class Tracer:
    """Traces requests for short times.

    :param name: the name of the instance, unique for each agent of a machine.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def clean(self) -> None:
        """Remove the instance of an agent that was killed while it traced.

        :raises ContentionError: the instance cannot be removed.
        """
        instance = self._instance()
        if instance is not None:
            with _explained(instance):
                _remove(instance)

    def sample(
        self, devices: collections.abc.Collection[str], seconds: float
    ) -> collections.abc.Generator[list[Request], None, None]:
        """Yield the requests to devices in portions while they are submitted.

        The instance is removed afterwards.

        :param devices: as ``major:minor``.
        :raises ContentionError: the kernel cannot trace.
        """
        instance = self._instance()
        if instance is None:
            raise exception.ContentionError(
                'Seeks of servers are not detected, tracefs is not mounted: '
                'mount -t tracefs tracefs /sys/kernel/tracing'
            )
        with _explained(instance):
            _remove(instance)
            os.mkdir(instance, 0o700)
            try:
                _set_up(instance, devices)
                for lines in _lines(instance, seconds):
                    requests = map(parse, lines)
                    yield [
                        request for request in requests if request is not None
                    ]
            finally:
                _remove(instance)

    def _instance(self) -> str | None:
        """Return the path of the instance, None if tracefs is not mounted."""
        for mount in psutil.disk_partitions(all=True):
            if mount.fstype == 'tracefs':
                return f'{mount.mountpoint}/instances/{self._name}'
        return None


def parse(line: str) -> Request | None:
    """Return the read or write in a line of a trace, None without one."""
    match = _LINE.search(line)
    if match is None:
        return None
    thread, process, major, minor, kind, start, sectors = match.groups()
    # F is a flush before the request, or a flush without data; D is a discard
    if sectors == '0' or kind.removeprefix('F')[:1] not in ('R', 'W'):
        return None
    return Request(
        device=f'{major}:{minor}',
        process=int(process if process.isdigit() else thread),
        start=int(start) * _SECTOR,
        length=int(sectors) * _SECTOR,
    )


def device_filter(devices: collections.abc.Collection[str]) -> str:
    """Return a trace filter that selects requests to devices.

    With too many devices to list, it also selects some other devices.

    :param devices: as ``major:minor``.
    """
    # the kernel's numbers have 20 bits for the minor one
    pairs = (device.split(':') for device in devices)
    numbers = sorted(int(major) << 20 | int(minor) for major, minor in pairs)
    if len(numbers) > _MAX_LISTED:
        return f'dev >= {numbers[0]} && dev <= {numbers[-1]}'
    return ' || '.join(f'dev == {number}' for number in numbers)


def _set_up(instance: str, devices: collections.abc.Collection[str]) -> None:
    sysfs.write(f'{instance}/buffer_size_kb', _BUFFER)
    for name, value in _OPTIONS.items():
        # old kernels lack some options
        with contextlib.suppress(FileNotFoundError):
            sysfs.write(f'{instance}/options/{name}', value)
    event = f'{instance}/events/block/{_EVENT}'
    sysfs.write(f'{event}/filter', device_filter(devices))
    sysfs.write(f'{event}/enable', '1')


def _lines(
    instance: str, seconds: float
) -> collections.abc.Iterator[list[str]]:
    ends = time.monotonic() + seconds
    path, rest = f'{instance}/trace_pipe', ''
    with files.opened(path, os.O_RDONLY | os.O_NONBLOCK) as pipe:
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE))
            *lines, rest = (rest + _drain(pipe, ends)).split('\n')
            yield lines


def _drain(pipe: int, ends: float) -> str:
    """Return the available text without waiting for more."""
    parts = []
    with contextlib.suppress(BlockingIOError):
        while part := os.read(pipe, 65536):
            parts.append(part)
            if time.monotonic() > ends:
                break
    return b''.join(parts).decode('utf-8', 'replace')


def _remove(instance: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(instance)


@contextlib.contextmanager
def _explained(instance: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename or instance
        raise exception.ContentionError(
            f'Seeks of servers are not detected: {path}: {error.strerror}'
        ) from error
