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

"""The cells of a sweep: the settings and the result of a measurement."""

import dataclasses

#: Bare metal, one server and several servers at once: BM, SVM and MVM of P0,
#: section IV-B.
SCENARIOS = ('bare', 'server', 'servers')
#: Blocking calls past the page cache and through it, and asynchronous I/O.
ENGINES = ('sync_direct', 'sync_cached', 'async')
OPERATIONS = ('read', 'write')


@dataclasses.dataclass(frozen=True, order=True)
class Shape:
    """The shape of a server: virtual CPUs, and memory in MiB."""

    vcpus: int
    ram_mib: int


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """The settings of one measurement.

    ``servers`` run fio at the same time, 0 on bare metal; ``vcpus`` and
    ``ram_mib`` (MiB) are those of each, 0 on bare metal. ``jobs`` threads in
    each server, or on bare metal, have ``depth`` requests in flight each; the
    scenario ``servers`` has one thread, and blocking calls one request.

    ``guest_scheduler`` and ``cache_mode``, which is QEMU's, are '' on bare
    metal. ``read_ahead_kb`` (KiB) is that of the block device that fio uses.
    """

    scenario: str
    servers: int
    vcpus: int
    ram_mib: int
    engine: str
    operation: str
    jobs: int
    depth: int
    host_scheduler: str
    guest_scheduler: str
    cache_mode: str
    read_ahead_kb: int

    @property
    def threads(self) -> int:
        """Threads of fio in all servers, or on bare metal."""
        return max(self.servers, 1) * self.jobs


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of one repetition of a cell; repetitions count from 0.

    ``began`` is a time of ISO 8601 in UTC, ``seconds`` the time until the
    last thread ended. ``mbps`` is the throughput of all threads together,
    ``rates`` that of each thread of all servers, in MB/s (10^6 bytes).
    ``latency_ms`` is the mean completion latency.

    ``serving`` is the share of time in which the threads executed, P3's CPU
    utilization: user and system time as fio has them, the mean over threads.
    ``waiting`` is the rest. ``context_switches`` are those of all threads
    together, per second.

    ``cpu`` has the shares of all processor time where fio ran (user, system,
    idle, iowait, steal; the mean over servers), ``host_cpu`` the same of the
    host. ``problem`` is the reason that the result does not count, or ''.
    """

    cell: Cell
    repetition: int
    began: str
    seconds: float
    mbps: float
    rates: tuple[float, ...]
    latency_ms: float
    serving: float
    waiting: float
    context_switches: float
    cpu: dict[str, float]
    host_cpu: dict[str, float]
    problem: str
