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

"""Whether a disk keeps up with its model, and what to make of it if not.

io.cost counts how much of a disk, by the model, it gave away. While a disk has
more requests than it can serve at once, that is what the disk did do: 0.5 is a
disk half as fast as its model.
"""

import dataclasses

from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.monitor import types

# Rounds in a row that show the same before the model is changed.
ROUNDS = 3

# A disk that does less than this of its model is slower than it.
_KEEPS_UP = 0.95

# What is let through of the model for a second or some, to empty a disk that
# keeps up but has filled up, in a stall: it would stay full, and weights do
# nothing in it. A model that has it full again soon is lowered by a little.
_DRAIN = 0.85
_MOST_DRAINS = 4
_STILL_FULL = 0.97
_A_LITTLE = 0.99
_SOON = 3

# All of a model that is given away.
_ALL = 0.97

# How many requests are in flight, of those that keep the disk busy, where
# there are too many.
_TOO_MANY = 1.75

# The least share of time that the disk must be busy for it to be at its limit.
_BUSY = 0.8

# The least share of the bytes that must be of those that io.cost counts, which
# are all but of the root cgroup: what else the disk did is not known.
_COUNTED = 0.95

# How fast a disk is taken to be at the least and at the most.
_LEAST = 0.02
_MOST = 1.1

# Seconds between two steps above what was measured, and how long these are:
# each that is too far has weights do nothing for some rounds.
_PROBE = 60.0
_PROBE_STEP = 0.01

# By how much a model is raised, and in how many seconds after it was lowered:
# at first, and at the most.
_STEP = 1.01
_MOST_STEP = 1.4
_PATIENCE = 15.0
_MOST_PATIENCE = 120.0

# The parts of a model, which may be wrong on their own.
BYTES = 'bytes'
REQUESTS = 'requests'

# What may be wrong: the model is faster than the disk, or slower, or it is
# right but the disk is full.
_FAST = 'fast'
_SLOW = 'slow'
_FULL = 'full'


@dataclasses.dataclass
class _Part:
    """How fast a part of a model is taken to be, 1.0 as measured."""

    scale: float = 1.0
    step: float = _STEP
    patience: float = _PATIENCE
    rest: float = _PROBE


class Fit:
    """The model of a disk, as corrected by what the disk does."""

    def __init__(self, model: io_model.Model) -> None:
        self.model = model
        self._parts = {BYTES: _Part(), REQUESTS: _Part()}
        self._streak: list[float] = []
        self._sign: tuple[str, str] | None = None
        self._since_drained = _SOON
        self._drains = 0
        #: the share of the model that is let through, for now
        self.rate = 1.0

    @property
    def scales(self) -> dict[str, float]:
        """How fast the disk is taken to be, by part of the model."""
        return {name: part.scale for name, part in self._parts.items()}

    @property
    def suspicious(self) -> bool:
        """Whether the model was found too fast in the last round."""
        return self._sign is not None and self._sign[0] == _FAST

    def coefficients(self) -> dict[str, str]:
        """Return the figures of the model for the kernel, as corrected."""
        found = {}
        for name in io_model.COEFFICIENTS:
            part = BYTES if name.endswith('bps') else REQUESTS
            value = getattr(self.model, name) * self._parts[part].scale
            found[name] = str(max(1, round(value)))
        return found

    def look(
        self, state: types.DiskState, counted: float | None = None
    ) -> bool:
        """Look at a round; tells whether the model is another one now.

        :param counted: the share of the bytes that io.cost counts, None if
            that is not known.
        """
        # it is given as a share of what is let through
        usage = (state.iocost_usage or 0.0) * self.rate
        for one in self._parts.values():
            one.rest = max(0.0, one.rest - state.seconds)
        sign = self._judge(state, usage)
        if self.rate < 1:
            return self._drained(sign, state.busy)
        if counted is not None and counted < _COUNTED:
            sign = None
        if sign != self._sign:
            self._sign, self._streak = sign, []
        if sign is None or sign[0] != _FULL:
            self._since_drained += 1
        if sign is None:
            return False
        # what was given away in the time that the disk did anything
        done = min(1.0, usage / state.busy)
        self._streak.append(done)
        kind, name = sign
        if kind == _FULL:
            self._drain(self._parts[name], done, state.seconds)
        elif len(self._streak) < ROUNDS:
            return False
        elif kind == _FAST:
            _lower(self._parts[name], sum(self._streak) / len(self._streak))
        else:
            _raise(self._parts[name])
        self._sign, self._streak = None, []
        return True

    def _drained(self, sign: tuple[str, str] | None, busy: float) -> bool:
        """End draining, if the disk was empty for a moment or never is."""
        full = sign is not None and sign[0] != _SLOW and busy >= _STILL_FULL
        self._drains += 1
        if full and self._drains < _MOST_DRAINS:
            return False
        self.rate, self._drains, self._since_drained = 1.0, 0, 0
        return True

    def _drain(self, part: _Part, done: float, seconds: float) -> None:
        if self._since_drained < _SOON:
            _lower(part, min(_A_LITTLE, done))
        self.rate = 1 - (1 - _DRAIN) / max(1.0, seconds)

    def _judge(
        self, state: types.DiskState, usage: float
    ) -> tuple[str, str] | None:
        """Return what is wrong, and with which part of the model."""
        requests = state.reads + state.writes
        if usage <= 0 or state.busy <= 0 or requests <= 0:
            return None
        # how many requests of this kind must be in flight to have the disk
        # busy: for their own time, and for that which each waits for it
        enough = 1 + self.model.latency / 1e6 * requests / usage
        too_many = state.queue / state.busy >= _TOO_MANY * enough
        name = self._part(state, usage)
        if too_many:
            keeps_up = usage / state.busy >= _KEEPS_UP
            kind = _FULL if keeps_up else _FAST
            return (kind, name) if state.busy >= _BUSY else None
        part = self._parts[name]
        if usage >= _ALL and part.scale < _MOST and part.rest <= 0:
            return _SLOW, name
        return None

    def _part(self, state: types.DiskState, usage: float) -> str:
        """Return the part of the model that most of the time was for."""
        taken = (
            state.read_bytes / self.model.rbps
            + state.write_bytes / self.model.wbps
        ) / self._parts[BYTES].scale
        return BYTES if taken >= usage / 2 else REQUESTS


def _lower(part: _Part, done: float) -> None:
    part.scale = max(_LEAST, part.scale * done)
    part.step = _STEP
    part.rest = part.patience
    # one that was raised in vain is not to be so again soon
    part.patience = min(_MOST_PATIENCE, part.patience * 2)


def _raise(part: _Part) -> None:
    if part.scale >= 1:
        part.scale = min(_MOST, part.scale + _PROBE_STEP)
    else:
        part.scale = min(1.0, part.scale * part.step)
        part.step = min(_MOST_STEP, 1 + 2 * (part.step - 1))
    if part.scale >= 1:
        part.patience, part.rest = _PATIENCE, _PROBE
