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

"""What consumers do on disks in an interval, and have done before."""

import dataclasses

import numpy

from nova_diskplacer.monitor import io_stat
from nova_diskplacer.monitor import types


@dataclasses.dataclass(frozen=True)
class Summary:
    """How pairs have used their disks since they were first seen.

    Rates are bytes per second, in intervals in which the pair did anything:
    arrays of the shape (R, 2), read and written; ``deviation`` is that of the
    population. ``active`` (R,) says how many such intervals there were;
    without any, rates are 0. ``idle_seconds`` (R,) says for how long nothing
    has been done.
    """

    pairs: tuple[types.ConsumerDisk, ...]
    active: types.Integers
    minimum: types.Floats
    maximum: types.Floats
    mean: types.Floats
    deviation: types.Floats
    idle_seconds: types.Floats


@dataclasses.dataclass(frozen=True)
class _State:
    """A row for each pair; ``spread`` is the sum of squares about ``mean``."""

    pairs: tuple[types.ConsumerDisk, ...]
    values: types.Integers
    active: types.Integers
    minimum: types.Floats
    maximum: types.Floats
    mean: types.Floats
    spread: types.Floats
    idle_seconds: types.Floats


class History:
    """Remembers in a few numbers what each pair has done.

    A pair that is not among the counters any more is forgotten.

    :param now: when watching begins, in seconds of any steady clock.
    """

    def __init__(self, now: float) -> None:
        self._then = now
        self._state = _blank(())

    def update(self, now: float, counters: io_stat.Counters) -> types.Round:
        """Return what was done since the last update.

        Counters that fell have begun anew. Nothing is held to have been done
        by what is seen for the first time.

        :param now: when the counters were read; later than at the last time.
        """
        seconds, self._then = now - self._then, now
        state = self._state
        if counters.pairs is not state.pairs:
            state = _aligned(state, counters.pairs)
        done = counters.values - state.values
        done = numpy.where(done < 0, counters.values, done)
        done[counters.first] = 0
        idle: types.Booleans = numpy.logical_not(done.any(axis=1))
        self._state = _updated(state, counters.values, done, idle, seconds)
        return types.Round(
            seconds=seconds,
            pairs=counters.pairs,
            read_bytes=done[:, 0],
            write_bytes=done[:, 1],
            reads=done[:, 2],
            writes=done[:, 3],
            idle=idle,
        )

    def summary(self) -> Summary:
        """Return what is known of all pairs; any thread may ask."""
        state = self._state
        ever = state.active[:, None] > 0
        return Summary(
            pairs=state.pairs,
            active=state.active,
            minimum=numpy.where(ever, state.minimum, 0.0),
            maximum=state.maximum,
            mean=state.mean,
            deviation=numpy.sqrt(
                state.spread / numpy.maximum(state.active, 1)[:, None]
            ),
            idle_seconds=state.idle_seconds,
        )


def _blank(pairs: tuple[types.ConsumerDisk, ...]) -> _State:
    rows = len(pairs)
    return _State(
        pairs=pairs,
        values=numpy.zeros((rows, 4), numpy.int64),
        active=numpy.zeros(rows, numpy.int64),
        minimum=numpy.full((rows, 2), numpy.inf),
        maximum=numpy.zeros((rows, 2)),
        mean=numpy.zeros((rows, 2)),
        spread=numpy.zeros((rows, 2)),
        idle_seconds=numpy.zeros(rows),
    )


def _aligned(old: _State, pairs: tuple[types.ConsumerDisk, ...]) -> _State:
    """Return the state with a row for each of these pairs, and no other."""
    new = _blank(pairs)
    place = {pair: row for row, pair in enumerate(old.pairs)}
    known = [row for row, pair in enumerate(pairs) if pair in place]
    rows = [place[pairs[row]] for row in known]
    for field in dataclasses.fields(_State):
        if field.name != 'pairs':
            column = getattr(new, field.name)
            column[known] = getattr(old, field.name)[rows]
    return new


def _updated(
    state: _State,
    values: types.Integers,
    done: types.Integers,
    idle: types.Booleans,
    seconds: float,
) -> _State:
    """Return the state after an interval (Welford's method)."""
    rates = done[:, :2] / seconds
    busy = ~idle[:, None]
    active = state.active + ~idle
    error = rates - state.mean
    mean = state.mean + busy * error / numpy.maximum(active, 1)[:, None]
    return _State(
        pairs=state.pairs,
        values=values,
        active=active,
        minimum=numpy.where(
            busy, numpy.minimum(state.minimum, rates), state.minimum
        ),
        maximum=numpy.maximum(state.maximum, rates),
        mean=mean,
        spread=state.spread + busy * error * (rates - mean),
        idle_seconds=numpy.where(idle, state.idle_seconds + seconds, 0.0),
    )
