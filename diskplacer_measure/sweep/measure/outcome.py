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

"""The result of a cell, from the measurements of its machines."""

import collections.abc
import datetime
import statistics

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep.measure import workload

#: The problem of a cell whose speed the processors bound; to repeat it would
#: not help.
CPU_BOUND = 'bound by the CPU'

# Share of the time of processors, or of threads, that leaves nothing to spare.
# Processors that wait for I/O could compute.
_BUSY = 0.95


def combine(
    repetition: plan.Repetition,
    machines: collections.abc.Sequence[workload.Measured],
    host_cpu: dict[str, float],
) -> cells.Result:
    """Return the result of a cell, with a problem if the CPU bound it.

    :param machines: the measurements of each server, or of bare metal; they
        began together.
    :param host_cpu: shares of the host's processor time meanwhile.
    """
    seconds = max(max(machine.ms) for machine in machines) / 1000
    # MB and seconds of each thread
    threads = [
        (kib * 1024 / 1e6, ms / 1000)
        for machine in machines
        for kib, ms in zip(machine.kib, machine.ms, strict=True)
    ]
    # machines count by their threads, latencies by their requests
    executing = statistics.fmean(
        (machine.executing for machine in machines),
        [len(machine.ms) for machine in machines],
    )
    latency_us = statistics.fmean(
        (machine.latency_us for machine in machines),
        [sum(machine.kib) for machine in machines],
    )
    switches = sum(machine.switches for machine in machines)
    return cells.Result(
        cell=repetition.cell,
        repetition=repetition.number,
        began=_iso(min(machine.began for machine in machines)),
        seconds=seconds,
        mbps=sum(size for size, _ in threads) / seconds,
        rates=tuple(size / took for size, took in threads),
        latency_ms=latency_us / 1000,
        serving=executing,
        waiting=1 - executing,
        context_switches=switches / seconds,
        cpu={
            name: statistics.fmean(machine.cpu[name] for machine in machines)
            for name in machines[0].cpu
        },
        host_cpu=host_cpu,
        problem=_cpu_problem(executing, machines, host_cpu),
    )


def _cpu_problem(
    executing: float,
    machines: collections.abc.Iterable[workload.Measured],
    host_cpu: dict[str, float],
) -> str:
    """Return CPU_BOUND if threads or processors had nothing to spare."""
    processors = (host_cpu, *(machine.cpu for machine in machines))
    bound = executing > _BUSY or any(map(is_busy, processors))
    return CPU_BOUND if bound else ''


def failed(
    repetition: plan.Repetition, began: float, problem: str
) -> cells.Result:
    """Return a result without figures.

    :param began: in seconds since the epoch.
    """
    return cells.Result(
        repetition.cell,
        repetition.number,
        _iso(began),
        seconds=0.0,
        mbps=0.0,
        rates=(),
        latency_ms=0.0,
        serving=0.0,
        waiting=0.0,
        context_switches=0.0,
        cpu={},
        host_cpu={},
        problem=problem,
    )


def is_final(result: cells.Result) -> bool:
    """Return whether a cell need not be repeated."""
    return result.problem in ('', CPU_BOUND)


def is_busy(shares: dict[str, float]) -> bool:
    """Return whether the processors of a machine had nothing to spare."""
    busy = sum(shares.get(name, 0.0) for name in ('user', 'system', 'steal'))
    return busy > _BUSY


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(
        timespec='seconds'
    )
