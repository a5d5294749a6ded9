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

"""The file of measured runs: JSON lines."""

import dataclasses
import os
import typing

from nova_diskplacer.host import json_lines

VERSION = 1

#: Whether the vCPUs of a run were pinned to CPUs, by the experiment.
PINNED = 'pinned'
FLOATING = 'floating'


@dataclasses.dataclass(frozen=True)
class Sample:
    """A run of a load, and the counters of a server meanwhile.

    ``started`` is a time in ISO 8601. ``seconds`` is the running time, that of
    the operations alone if ``load`` has it. ``counters`` are sums of the run,
    except sizes in bytes, which are those at its end; ``missing`` has the
    reason for each counter that this host does not have.

    ``vcpus_are`` is PINNED or FLOATING, and ``block`` the number of the block
    of two runs, in an experiment on migrations; else '' and None. ``load`` is
    the description that the load printed, or {}.
    """

    started: str
    host: str
    kernel: str
    server: str
    vcpus: int
    memory_bytes: int
    seconds: float
    counters: dict[str, float]
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    block: int | None = None
    vcpus_are: str = ''
    load: dict[str, typing.Any] = dataclasses.field(default_factory=dict)

    @property
    def data_bytes(self) -> int | None:
        """The size of the load's data set, None if it is not known."""
        size = self.load.get('data_bytes')
        return size if isinstance(size, int) else None

    @property
    def operations(self) -> int | None:
        """The number of operations of the load, None if it is not known."""
        count = self.load.get('operations')
        return count if isinstance(count, int) and count > 0 else None


def append(path: str, sample: Sample) -> None:
    """Add a run to a file durably; make it if it is missing.

    :raises DiskPlacerError: the file cannot be written.
    """
    with json_lines.Writer(path) as writer:
        writer.add(sample, version=VERSION)


def check_writable(path: str) -> None:
    """Check that runs can be added to a file, before any is made.

    :raises DiskPlacerError: the file cannot be written, or has something else.
    """
    if os.path.exists(path) and not read(path):
        json_lines.check_first_line(path, version=VERSION)
    with json_lines.Writer(path):
        pass


def read(path: str) -> list[Sample]:
    """Return the runs of a file, without a half-written last line.

    :raises DiskPlacerError: the file cannot be read, or a line is no run; the
        message names the line.
    """
    entries = []
    for number, line in enumerate(json_lines.read(path), 1):
        with json_lines.line(path, number):
            sample = json_lines.parse(line, Sample, version=VERSION)
            _check(sample)
        entries.append(sample)
    return entries


def _check(sample: Sample) -> None:
    """Check the values of a run.

    :raises ValueError: one is not allowed.
    """
    for name in ('seconds', 'vcpus', 'memory_bytes'):
        value = getattr(sample, name)
        if value <= 0:
            raise ValueError(f'{name}={value} is not above 0')
    if sample.vcpus_are not in ('', PINNED, FLOATING):
        raise ValueError(
            f'vcpus_are={sample.vcpus_are!r} is none of {PINNED!r}, '
            f"{FLOATING!r} and ''"
        )
