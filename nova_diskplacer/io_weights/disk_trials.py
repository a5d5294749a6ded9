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

"""Keeps the trials of the turns of disks.

A disk has a trial of its own while one server there is lowered, and another
one while several are, because their turns cost more.
"""

import collections.abc
import dataclasses

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import presence
from nova_diskplacer.io_weights import turns

LOG = logging.getLogger(__name__)

# Indexes of the turns until a disk has been tried: those of several lowered
# servers may cost a seek each.
_OF_ONE = 1
_OF_SEVERAL = len(turns.TURNS_S) - 1

# Servers are light if they move this part, at most, of what the active ones of
# the disk move on average.
_LIGHT = 0.4

# Seconds for which a disk counts as one with several lowered servers after it
# had them last: they come and go.
_SEVERAL_S = 10.0


@dataclasses.dataclass(frozen=True)
class Load:
    """A disk at its limit whose active servers differ in weight.

    ``lowered`` is the number of active servers that :func:`count_lowered`
    counts in an interval, ``throughput`` the sum of both directions in
    bytes/s, and ``servers`` are the keys of all active servers. ``is_light``
    is what :func:`is_light` says.
    """

    lowered: int
    throughput: float
    servers: frozenset[str]
    is_light: bool = False


class DiskTrials:
    """The trials of disks at their limit whose active servers differ."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._several_s: dict[str, float] = {}
        # by the UUID of a disk, and whether several servers are lowered
        self._trials: dict[tuple[str, bool], turns.Trial] = {}
        self._present: dict[tuple[str, bool], presence.Presence] = {}
        # the trials, as if no disk had been tried in the last interval
        self._untried: dict[tuple[str, bool], turns.Trial] = {}
        # disks whose trial has ended in the last interval
        self._ended: set[str] = set()
        # disks whose settings are not those of their trial
        self._not_set: set[str] = set()

    def step(
        self,
        contended: collections.abc.Mapping[Device, Load],
        seconds: float,
        below_limit: collections.abc.Container[str] = (),
    ) -> dict[str, turns.Trial]:
        """Return the trials of these disks after an interval, by UUID.

        The trials of all others pause.

        :param seconds: the length of the interval.
        :param below_limit: UUIDs of other disks whose active servers differ.
        """
        self._several_s = less(self._several_s, seconds) | {
            device.uuid: _SEVERAL_S
            for device, load in contended.items()
            if load.lowered > 1
        }
        at_limit = {device.uuid for device in contended}
        self._untried = {
            (uuid, several): turns.pause(
                trial, seconds, uuid in at_limit, uuid in below_limit
            )
            for (uuid, several), trial in self._trials.items()
        }
        before = self._trials
        self._trials = self._untried.copy()
        self._ended.clear()
        trials = {}
        for device, load in contended.items():
            key = device.uuid, device.uuid in self._several_s
            choices = _choices(device)
            if device.uuid in self._not_set:
                trial = self._untried.get(key) or self._first(key, choices)
            else:
                trial = before.get(key) or self._first(key, choices)
                is_other = key[1] and load.lowered <= 1
                if is_other and trial.left_s is None:
                    # it would be measured with another number of servers
                    trial = self._untried[key]
                else:
                    trial = self._step(trial, key, choices, load, seconds)
            trials[device.uuid] = self._trials[key] = trial
        self._not_set -= trials.keys()
        return trials

    def take_back(self, uuid: str) -> None:
        """Do not count the last interval, whose trial could not be set.

        Nor is the next one counted: nobody knows what is set meanwhile.
        """
        self._not_set.add(uuid)
        for key in ((uuid, False), (uuid, True)):
            if key in self._untried:
                self._trials[key] = self._untried[key]
            else:
                self._trials.pop(key, None)

    def log_kept(self, device: Device, trial: turns.Trial) -> None:
        """Log what a trial has found if it has ended in the last interval."""
        if device.uuid in self._ended:
            _log_kept(device, trial, self._prefer)

    @property
    def _prefer(self) -> str:
        # read here: what restores settings needs no correct options
        prefer: str = self._conf.diskplacer_weights.prefer
        return prefer

    def _first(
        self, key: tuple[str, bool], choices: tuple[float, ...]
    ) -> turns.Trial:
        """Return the trial of a disk that was never tried."""
        if self._prefer == turns.THROUGHPUT:
            return turns.Trial(None)
        _, several = key
        first = _OF_SEVERAL if several else _OF_ONE
        return turns.Trial(min(first, len(choices) - 1))

    def _step(
        self,
        trial: turns.Trial,
        key: tuple[str, bool],
        choices: tuple[float, ...],
        load: Load,
        seconds: float,
    ) -> turns.Trial:
        """Return the trial of a disk after an interval that counts."""
        present = self._present.get(key, presence.Presence())
        present = presence.step(present, load.servers, seconds)
        self._present[key] = present
        after = turns.step(
            trial,
            load.throughput,
            seconds,
            choices,
            turns.ALLOWED[self._prefer],
            present.servers,
            load.is_light,
        )
        if trial.left_s is None and after.left_s is not None:
            self._ended.add(key[0])
        return after


def count_lowered(weights: collections.abc.Collection[int]) -> int:
    """Return how many servers have at most half of the highest weight.

    A light server whose class falls by one for some seconds is none of them.

    :param weights: those of the active servers of a disk.
    """
    highest = max(weights)
    return sum(2 * weight <= highest for weight in weights)


def is_light(
    weights: collections.abc.Mapping[str, int],
    moved: collections.abc.Mapping[str, int],
    before: collections.abc.Mapping[str, int],
) -> bool:
    """Return whether servers with the highest weight use little of a disk.

    One that has just begun, or ended, was active for a part of an interval. So
    they were active in the interval before, too, and used little in both.

    :param weights: those of the active servers of a disk, by key.
    :param moved: bytes of each of them in the interval.
    :param before: bytes of those that were active in the interval before.
    """
    highest = max(weights.values())
    favored = [key for key, weight in weights.items() if weight == highest]
    if not all(key in before for key in favored):
        return False
    used = sum(max(moved[key], before[key]) for key in favored)
    mean = sum(moved.values()) / len(moved)
    return used <= _LIGHT * mean * len(favored)


def turn_s(device: Device, trial: turns.Trial) -> float | None:
    """Return the seconds of a turn on a disk, None for BFQ's own settings."""
    return None if trial.choice is None else _choices(device)[trial.choice]


def less(
    left_s: collections.abc.Mapping[str, float], seconds: float
) -> dict[str, float]:
    """Return what is left of seconds after an interval, where any is."""
    return {
        uuid: left - seconds for uuid, left in left_s.items() if left > seconds
    }


def _choices(device: Device) -> tuple[float, ...]:
    """Return the turns that can be set; there is one without a known speed."""
    return turns.TURNS_S if device.mbps else turns.TURNS_S[-1:]


def _log_kept(device: Device, trial: turns.Trial, prefer: str) -> None:
    """Log what a trial has found."""
    seconds = turn_s(device, trial)
    if seconds is None or trial.lost is None:
        LOG.info(
            "Disk %s keeps BFQ's own settings: any turns cost more than the "
            '%.0f %% of the throughput of [diskplacer_weights] prefer = %s.',
            device.uuid, 100 * turns.ALLOWED[prefer], prefer,
        )  # fmt: skip
    else:
        LOG.info(
            'Disk %s has turns of %.0f ms: they cost %.0f %% of its '
            'throughput, and may cost %.0f %%.',
            device.uuid, 1000 * seconds, 100 * trial.lost,
            100 * turns.ALLOWED[prefer],
        )  # fmt: skip
