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

"""Finds the turns of BFQ that cost a disk no more than is allowed.

With short turns light servers wait less. They cost a disk that seeks much of
its throughput, and a disk without seeks nothing. So a load that lasts is
tried: with BFQ's own settings, whose throughput is the reference, and then
with turns from the shortest on. The first ones that cost no more than allowed
are kept, or else BFQ's own settings. Later the disk is tried again.
"""

import collections.abc
import dataclasses

#: Turns in seconds, from the shortest on.
TURNS_S = (0.002, 0.012, 0.025, 0.05, 0.1)

#: The largest share of the throughput that turns may cost, by
#: ``[diskplacer_weights] prefer``.
THROUGHPUT = 'throughput'
BALANCED = 'balanced'
LATENCY = 'latency'
ALLOWED = {THROUGHPUT: 0.02, BALANCED: 0.2, LATENCY: 0.6}

# A load is tried once it has lasted this long.
_STEADY_S = 20.0

# Intervals of a step; the first one, in which the change happens, is not
# counted.
_INTERVALS = 3

# The minimal share of time that a disk at its limit is busy.
_BUSY = 0.9

# Seconds until the next trial: after one with another result than before, and
# at most.
_KEPT_S = 60.0
_MAX_KEPT_S = 960.0


@dataclasses.dataclass(frozen=True)
class Trial:
    """The state of a disk whose active servers differ in weight.

    ``choice`` is the index of the turns in force among those that are tried,
    None for BFQ's own settings; ``before`` is what was in force before the
    trial. ``left_s`` is the time until the next trial, None during one, and
    ``kept_s`` how long the last choice was kept. ``counted`` is the throughput
    of each interval of the present step, ``reference`` that with BFQ's own
    settings, in bytes/s. ``lost`` is the share of the reference that the kept
    choice cost when it was tried, None before.
    """

    choice: int | None
    before: int | None = None
    left_s: float | None = _STEADY_S
    kept_s: float = _KEPT_S
    counted: tuple[float, ...] = ()
    reference: float | None = None
    lost: float | None = None


def step(
    trial: Trial,
    throughput: float,
    busy: float,
    seconds: float,
    turns_s: collections.abc.Sequence[float],
    allowed: float,
) -> Trial:
    """Return the state after an interval of a contended disk.

    An interval in which the disk was not at its limit is not counted.

    :param throughput: bytes/s of all servers in the interval.
    :param busy: share of the interval with requests in flight.
    :param turns_s: the turns that can be tried, from the shortest on.
    :param allowed: share of the throughput that turns may cost.
    """
    if busy < _BUSY:
        return trial
    if trial.left_s is not None:
        left_s = trial.left_s - seconds
        if left_s > 0:
            return dataclasses.replace(trial, left_s=left_s)
        return dataclasses.replace(
            trial, choice=None, before=trial.choice, left_s=None
        )
    counted = (*trial.counted, throughput)
    if len(counted) < _INTERVALS:
        return dataclasses.replace(trial, counted=counted)
    mean = sum(counted[1:]) / (_INTERVALS - 1)
    choice = trial.choice
    if trial.reference is None or choice is None:
        return dataclasses.replace(trial, choice=0, counted=(), reference=mean)
    lost = max(0.0, 1.0 - mean / trial.reference) if trial.reference else 0.0
    if lost <= allowed:
        return _keep(trial, choice, lost)
    if choice + 1 < len(turns_s):
        return dataclasses.replace(trial, choice=choice + 1, counted=())
    return _keep(trial, None, 0.0)


def _keep(trial: Trial, choice: int | None, lost: float) -> Trial:
    """Return the state at the end of a trial.

    The next one is later if this one has confirmed the one before.
    """
    again = choice == trial.before
    kept_s = min(2 * trial.kept_s, _MAX_KEPT_S) if again else _KEPT_S
    return Trial(choice=choice, left_s=kept_s, kept_s=kept_s, lost=lost)
