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

"""Requests on block devices, as the kernel traces them.

The agent has a trace of its own, an instance of tracefs, with buffers, events
and options of its own: whoever else traces notices nothing of it.
"""

import collections.abc
import contextlib
import dataclasses
import os
import re
import time

from nova_diskplacer import exception
from nova_diskplacer.host import mounts
from nova_diskplacer.host import sysfs

# Each bio when it is submitted, by whoever submits it, and before it waits
# for anything. Later events may be those of a kernel thread.
_EVENT = 'block_bio_queue'

# With these, lines are as _LINE has them: an instance begins with what was
# set for all.
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

# KiB for each CPU: about 2,000 requests, which are read as they come.
_BUFFER = '128'

# Seconds between two reads.
_PAUSE = 0.1

# The most devices to name in a filter, which has to fit in a page.
_NAMED = 100

_MINOR_BITS = 20
_SECTOR = 512


@dataclasses.dataclass(frozen=True)
class Request:
    """A read or write of ``length`` bytes at the byte ``start`` of a device.

    ``device`` is ``major:minor``. ``process`` is that of the thread that
    submitted it, even if the thread has gone since; the thread itself if the
    kernel does not know the process.
    """

    device: str
    process: int
    start: int
    length: int


class Tracer:
    """Traces requests, a short time each.

    :param name: that of the instance; each agent of a machine has its own.
    """

    def __init__(self, name: str, mounts_file: str = mounts.PATH) -> None:
        self._name = name
        self._mounts_file = mounts_file

    def clean(self) -> None:
        """Remove what was left by an agent that was killed while it traced.

        :raises ContentionError: it cannot be removed.
        """
        tracefs = _tracefs(self._mounts_file)
        if tracefs is not None:
            instance = self._instance(tracefs)
            with _explained(instance):
                _remove(instance)

    def sample(
        self, devices: collections.abc.Collection[str], seconds: float
    ) -> collections.abc.Generator[list[Request], None, None]:
        """Yield what is submitted to devices, in portions, as it comes.

        Of the trace nothing is left afterwards.

        :param devices: as ``major:minor``.
        :raises ContentionError: the kernel does not trace.
        """
        tracefs = _tracefs(self._mounts_file)
        if tracefs is None:
            raise exception.ContentionError(
                'Servers are not inspected for seeks, tracefs is not mounted: '
                'mount -t tracefs tracefs /sys/kernel/tracing'
            )
        instance = self._instance(tracefs)
        with _explained(instance):
            _remove(instance)
            os.mkdir(instance, 0o700)
            try:
                _set_up(instance, devices)
                for lines in _lines(instance, seconds):
                    requests = map(parse, lines)
                    yield [one for one in requests if one is not None]
            finally:
                _remove(instance)

    def _instance(self, tracefs: str) -> str:
        return f'{tracefs}/instances/{self._name}'


def parse(line: str) -> Request | None:
    """Return the read or write of a line of a trace, None if it is neither."""
    match = _LINE.search(line)
    if match is None:
        return None
    thread, process, major, minor, kind, start, sectors = match.groups()
    # F: after a flush, or the flush itself, which has no data; D: a discard
    if sectors == '0' or kind.removeprefix('F')[:1] not in ('R', 'W'):
        return None
    return Request(
        device=f'{major}:{minor}',
        process=int(process if process.isdigit() else thread),
        start=int(start) * _SECTOR,
        length=int(sectors) * _SECTOR,
    )


def condition(devices: collections.abc.Collection[str]) -> str:
    """Return a filter that the requests of devices pass.

    If they are too many to be named, those of some others pass as well.

    :param devices: as ``major:minor``.
    """
    numbers = sorted(map(_number, devices))
    if len(numbers) > _NAMED:
        return f'dev >= {numbers[0]} && dev <= {numbers[-1]}'
    return ' || '.join(f'dev == {number}' for number in numbers)


def _number(device: str) -> int:
    """Return what the kernel itself has for ``major:minor``."""
    major, minor = map(int, device.split(':'))
    return major << _MINOR_BITS | minor


def _tracefs(mounts_file: str) -> str | None:
    """Return where tracefs is mounted."""
    found = (one for one in mounts.read(mounts_file) if one.type == 'tracefs')
    return next((mount.target for mount in found), None)


def _set_up(instance: str, devices: collections.abc.Collection[str]) -> None:
    sysfs.write(f'{instance}/buffer_size_kb', _BUFFER)
    for name, value in _OPTIONS.items():
        # old kernels lack some
        with contextlib.suppress(FileNotFoundError):
            sysfs.write(f'{instance}/options/{name}', value)
    event = f'{instance}/events/block/{_EVENT}'
    sysfs.write(f'{event}/filter', condition(devices))
    sysfs.write(f'{event}/enable', '1')


def _lines(
    instance: str, seconds: float
) -> collections.abc.Iterator[list[str]]:
    ends = time.monotonic() + seconds
    pipe = os.open(f'{instance}/trace_pipe', os.O_RDONLY | os.O_NONBLOCK)
    try:
        rest = ''
        while (left := ends - time.monotonic()) > 0:
            time.sleep(min(left, _PAUSE))
            text = rest + _drain(pipe, ends)
            *lines, rest = text.split('\n')
            yield lines
    finally:
        os.close(pipe)


def _drain(pipe: int, ends: float) -> str:
    """Return what there is, but do not wait for more."""
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
            f'Servers are not inspected for seeks: {path}: {error.strerror}'
        ) from error
