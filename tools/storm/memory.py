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


"""Whether the memory of a process grows."""

import collections.abc
import statistics
import typing

MIB = 2**20
# Seconds: a process that starts grows, and a short run tells nothing.
WARM_UP = 180
SHORTEST = 600
# A process grows if its memory does by both.
SHARE = 0.15
LEAST_MIB = 40


class Sample(typing.NamedTuple):
    """``rss`` in bytes of the process ``pid`` after so many ``seconds``."""

    seconds: float
    pid: int
    rss: int


def runs(
    samples: collections.abc.Iterable[Sample],
) -> list[list[Sample]]:
    """Return the samples of each process, without those of its start."""
    by_pid: dict[int, list[Sample]] = {}
    for one in samples:
        by_pid.setdefault(one.pid, []).append(one)
    return [
        [
            sample
            for sample in run
            if sample.seconds >= run[0].seconds + WARM_UP
        ]
        for run in by_pid.values()
        if run[-1].seconds - run[0].seconds >= SHORTEST
    ]


def growth(run: collections.abc.Sequence[Sample]) -> tuple[float, float]:
    """Return the MiB of the first third of a run, and of the last one."""
    third = max(1, len(run) // 3)
    first, last = (
        statistics.median(one.rss for one in part) / MIB
        for part in (run[:third], run[-third:])
    )
    return first, last


def grows(run: collections.abc.Sequence[Sample]) -> bool:
    first, last = growth(run)
    return last - first > max(LEAST_MIB, SHARE * first)
