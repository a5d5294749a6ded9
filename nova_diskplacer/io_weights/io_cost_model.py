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

"""Adapts the io.cost model of a disk to what the disk achieves.

io.cost reports its usage: the share of the model's capacity that it issued.
While the disk has more requests than it can serve at once, that is what the
disk achieved: at 0.5 the disk is half as fast as its model.
"""

import dataclasses

from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.monitor import types

# Consecutive intervals with the same finding before a change of the model.
INTERVALS = 3

# A disk that achieves a smaller share of its model is slower than the model.
_KEEPS_UP = 0.95

# A disk that keeps up but filled up in a stall stays full, and weights have
# no effect on it. The model's rate is throttled to _DRAIN for about a
# second, at most _MAX_DRAINS intervals in a row while the disk stays busy. A
# disk that is full again within _SOON intervals gets a slightly slower model.
_DRAIN = 0.85
_MAX_DRAINS = 4
_STILL_FULL = 0.97
_SLIGHTLY_SLOWER = 0.99
_SOON = 3

# The usage from which on a model limits the disk.
_EXHAUSTED = 0.97

# Requests in flight that fill a disk, in multiples of those that keep it busy.
_FULL_QUEUE = 1.75

# The minimal share of time that a disk at its limit is busy.
_BUSY = 0.8

# The minimal share of bytes caused by cgroups other than the root, which
# io.cost does not limit, for a finding to be about the model.
_CGROUP_SHARE = 0.95

# The limits of scales.
_MIN_SCALE = 0.02
_MAX_SCALE = 1.1

# Probing above the measured speed: the step, and seconds between steps. A
# step too far makes weights ineffective for some intervals.
_PROBE_COOLDOWN_S = 60.0
_PROBE_STEP = 0.01

# The factor by which a scale is raised, and the delay in seconds after it was
# lowered: initial values and limits.
_STEP = 1.01
_MAX_STEP = 1.4
_RETRY_DELAY_S = 15.0
_MAX_RETRY_DELAY_S = 120.0

# The components of a model; each has its own scale.
BYTES = 'bytes'
REQUESTS = 'requests'

# Findings: the model is faster or slower than the disk, or it is right but the
# disk is full.
_TOO_FAST = 'too fast'
_TOO_SLOW = 'too slow'
_FULL = 'full'


@dataclasses.dataclass
class _Component:
    """The scale of a model's component, 1.0 as measured."""

    scale: float = 1.0
    step: float = _STEP
    retry_delay_s: float = _RETRY_DELAY_S
    cooldown_s: float = _PROBE_COOLDOWN_S

    def decrease(self, achieved: float) -> None:
        self.scale = max(_MIN_SCALE, self.scale * achieved)
        self.step = _STEP
        self.cooldown_s = self.retry_delay_s
        # delay the next increase after one that failed
        self.retry_delay_s = min(_MAX_RETRY_DELAY_S, self.retry_delay_s * 2)

    def increase(self) -> None:
        if self.scale >= 1:
            self.scale = min(_MAX_SCALE, self.scale + _PROBE_STEP)
        else:
            self.scale = min(1.0, self.scale * self.step)
            self.step = min(_MAX_STEP, 1 + 2 * (self.step - 1))
        if self.scale >= 1:
            self.retry_delay_s = _RETRY_DELAY_S
            self.cooldown_s = _PROBE_COOLDOWN_S


class AdaptiveModel:
    """The measured model of a disk, scaled to what the disk achieves."""

    def __init__(self, measured: io_model.Model) -> None:
        self.measured = measured
        self._components = {BYTES: _Component(), REQUESTS: _Component()}
        self._achieved: list[float] = []
        self._finding: tuple[str, str] | None = None
        self._since_drained = _SOON
        self._drains = 0
        #: share of the model's rate that is issued now
        self.rate = 1.0

    @property
    def scales(self) -> dict[str, float]:
        """The scales by component, 1.0 as measured."""
        return {
            name: component.scale
            for name, component in self._components.items()
        }

    @property
    def too_fast(self) -> bool:
        """True if the model was too fast in the last interval."""
        return self._finding is not None and self._finding[0] == _TOO_FAST

    def coefficients(self) -> dict[str, str]:
        """Return the scaled coefficients as fields of ``io.cost.model``."""
        texts = {}
        for name in io_model.COEFFICIENTS:
            component = BYTES if name.endswith('bps') else REQUESTS
            value = getattr(self.measured, name)
            value *= self._components[component].scale
            texts[name] = str(max(1, round(value)))
        return texts

    def update(
        self, state: types.DiskState, cgroup_share: float | None = None
    ) -> bool:
        """Add an interval; returns whether the model changed.

        :param cgroup_share: the share of bytes caused by cgroups other than
            the root, None if unknown.
        """
        # the kernel reports it relative to the present rate
        usage = (state.iocost_usage or 0.0) * self.rate
        for component in self._components.values():
            component.cooldown_s = max(
                0.0, component.cooldown_s - state.seconds
            )
        finding = self._judge(state, usage)
        if self.rate < 1:
            return self._end_drain(finding, state.busy)
        if cgroup_share is not None and cgroup_share < _CGROUP_SHARE:
            finding = None
        if finding != self._finding:
            self._finding, self._achieved = finding, []
        if finding is None or finding[0] != _FULL:
            self._since_drained += 1
        if finding is None:
            return False
        self._achieved.append(min(1.0, usage / state.busy))
        kind, name = finding
        component = self._components[name]
        if kind == _FULL:
            if self._since_drained < _SOON:
                component.decrease(min(_SLIGHTLY_SLOWER, self._achieved[-1]))
            self.rate = 1 - (1 - _DRAIN) / max(1.0, state.seconds)
        elif len(self._achieved) < INTERVALS:
            return False
        elif kind == _TOO_FAST:
            component.decrease(sum(self._achieved) / len(self._achieved))
        else:
            component.increase()
        self._finding, self._achieved = None, []
        return True

    def _end_drain(self, finding: tuple[str, str] | None, busy: float) -> bool:
        """End draining once the disk was idle, or after some intervals."""
        full = (
            finding is not None
            and finding[0] != _TOO_SLOW
            and busy >= _STILL_FULL
        )
        self._drains += 1
        if full and self._drains < _MAX_DRAINS:
            return False
        self.rate, self._drains, self._since_drained = 1.0, 0, 0
        return True

    def _judge(
        self, state: types.DiskState, usage: float
    ) -> tuple[str, str] | None:
        """Return a finding and its component, None without a finding."""
        requests = state.reads + state.writes
        if usage <= 0 or state.busy <= 0 or requests <= 0:
            return None
        # the requests in flight that keep the disk busy: the one in service,
        # and those that arrive during its latency
        needed = 1 + self.measured.latency / 1e6 * requests / usage
        full = state.queue / state.busy >= _FULL_QUEUE * needed
        name = self._dominant_component(state, usage)
        if full:
            keeps_up = usage / state.busy >= _KEEPS_UP
            kind = _FULL if keeps_up else _TOO_FAST
            return (kind, name) if state.busy >= _BUSY else None
        component = self._components[name]
        if (
            usage >= _EXHAUSTED
            and component.scale < _MAX_SCALE
            and component.cooldown_s <= 0
        ):
            return _TOO_SLOW, name
        return None

    def _dominant_component(self, state: types.DiskState, usage: float) -> str:
        """Return the component with most of the usage."""
        by_bytes = (
            state.read_bytes / self.measured.rbps
            + state.write_bytes / self.measured.wbps
        ) / self._components[BYTES].scale
        return BYTES if by_bytes >= usage / 2 else REQUESTS
