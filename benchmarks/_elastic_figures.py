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

"""The figures of elastic, from what its guest has measured.

Times are in seconds since the first phase began.
"""

import collections
import collections.abc
import itertools
import math
import typing

import _report
import _striping_layouts as layouts

MB = 10**6
# Bins of a latency, per factor e: each is 2 % longer than the one before.
BINS = 50
# Seconds of a throughput that is to last.
SPAN_S = 10
# Seconds before a move that it is compared with.
BEFORE_S = 40
KEPT = 0.9
SLOWER = 2.0
WIDE_WITHIN_S = 120

Found = dict[str, typing.Any]


def bin_of(ms: float) -> int:
    """Return the bin of a latency in milliseconds."""
    return round(BINS * math.log(max(ms, 1e-3)))


class Window(typing.NamedTuple):
    """What streams got in a time; ``p99_ms`` is None without requests."""

    mbps: float
    p99_ms: float | None


class Series:
    """Requests, by the second in which they ended and the bin of latency.

    :param seconds: as ``_elastic_guest.seconds_of`` returns them; of those in
        which nothing ended there may be none.
    """

    def __init__(
        self,
        seconds: collections.abc.Iterable[
            tuple[int, collections.abc.Mapping[str, int]]
        ],
    ) -> None:
        self._bins = {
            second: {int(name): count for name, count in bins.items()}
            for second, bins in seconds
        }

    def window(self, begin: float, end: float) -> Window | None:
        """Return what was got in between, None without a whole second."""
        seconds = range(math.ceil(begin), math.floor(end))
        if not seconds:
            return None
        counts: collections.Counter[int] = collections.Counter()
        for second in seconds:
            counts.update(self._bins.get(second, {}))
        mbps = counts.total() * layouts.BLOCK / len(seconds) / MB
        return Window(mbps, _percentile(counts, 0.99))

    def stays(self, begin: float, end: float, mbps: float) -> float | None:
        """Return how long after the begin the throughput stays until the end.

        :param mbps: the least mean of any ``SPAN_S`` from then on.
        :returns: None if it never stays.
        """
        found = None
        for start in range(math.floor(end) - SPAN_S, math.ceil(begin) - 1, -1):
            window = self.window(start, start + SPAN_S)
            if window is None or window.mbps < mbps:
                break
            found = start - begin
        return found


def _percentile(
    counts: collections.Counter[int], share: float
) -> float | None:
    left = share * counts.total()
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            return math.exp(number / BINS)
    return None


class Move(typing.NamedTuple):
    """A move of one or more steps, beside the load of a phase.

    The load from ``begin`` to ``until`` is compared with that from ``before``
    to ``begin``. ``disks`` are those that legs came to or left. ``failed`` is
    true if a step was taken back.
    """

    phase: str
    before: float
    begin: float
    until: float
    end: float
    widens: bool
    disks: frozenset[str]
    failed: bool


def moves(
    steps: collections.abc.Iterable[Found],
    phases: collections.abc.Mapping[str, Found],
) -> list[Move]:
    """Return the moves that steps belong to.

    The time before a move is at most ``BEFORE_S`` long and has neither other
    moves nor anything before the phase's first requests in it.
    """
    found: list[Move] = []
    for _, group in itertools.groupby(steps, key=lambda step: step['asked']):
        some = list(group)
        first, last = some[0], some[-1]
        begin = first['begin']
        phase = max(
            (name for name in phases if phases[name]['begin'] <= begin),
            key=lambda name: phases[name]['begin'],
        )
        found.append(
            Move(
                phase=phase,
                before=max(
                    begin - BEFORE_S,
                    phases[phase]['first'],
                    *(one.end for one in found),
                ),
                begin=begin,
                until=min(last['end'], phases[phase]['end']),
                end=last['end'],
                widens=len(set(last['new'])) > len(set(first['old'])),
                disks=frozenset(
                    disk
                    for step in some
                    for pair in zip(step['old'], step['new'], strict=True)
                    if pair[0] != pair[1]
                    for disk in pair
                ),
                failed=any(step['failed'] for step in some),
            )
        )
    return found


def evaluate(found: Found) -> _report.Figures:
    """Return all figures; None are those of what did not happen."""
    phases = found['phases']
    loads = {name: Series(one['seconds']) for name, one in phases.items()}
    neighbour = Series(found['neighbour'])
    figures: _report.Figures = {}
    for name in ('stripe', 'narrow'):
        window = loads[name].window(phases[name]['first'], phases[name]['end'])
        figures[f'{name}_mbps'] = window and window.mbps
        figures[f'{name}_p99_ms'] = window and window.p99_ms
    every = moves(found['steps'], phases)
    done = [move for move in every if not move.failed]
    # it asks for the same all the time, in requests at random times
    alone = neighbour.window(
        phases['narrow']['first'], phases['narrow']['end']
    )
    shares = []
    for direction, widens in (('widen', True), ('narrow', False)):
        some = [move for move in done if move.widens == widens]
        compared = [_compare(loads[move.phase], move) for move in some]
        figures[f'{direction}_moves'] = len(some)
        figures[f'{direction}_kept'] = min(_known(compared, 0), default=None)
        figures[f'{direction}_slower'] = max(_known(compared, 1), default=None)
        figures[f'{direction}_move_p99_ms'] = max(
            _known(compared, 2), default=None
        )
        figures[f'{direction}_copy_mbps'] = _copy_mbps(found['steps'], widens)
        shares += [
            window.mbps / alone.mbps
            for move in some
            if found['neighbour_disk'] in move.disks
            and (window := neighbour.window(move.begin, move.end))
            and alone
        ]
    figures['neighbour_kept'] = min(shares, default=None)
    figures['failed_moves'] = len(every) - len(done)
    figures |= _pressure(
        loads['pressure'],
        phases['pressure']['begin'],
        phases['pressure']['end'],
        figures['stripe_mbps'],
        [one.end for one in done if one.widens and one.phase == 'pressure'],
    )
    figures['end_width'] = found['end_width']
    figures['narrow_after_quiet_s'] = None
    if found['end_width'] == 1:
        ends = [one.end for one in done if one.phase == 'quiet']
        if ends:
            figures['narrow_after_quiet_s'] = (
                max(ends) - phases['quiet']['begin']
            )
    return figures


_Comparison = tuple[float | None, float | None, float | None]


def _known(compared: list[_Comparison], index: int) -> list[float]:
    return [one[index] for one in compared if one[index] is not None]


def _pressure(
    series: Series,
    begin: float,
    end: float,
    stripe_mbps: float | None,
    widened: list[float],
) -> _report.Figures:
    """Return what the server gets under pressure, beside the fixed stripe.

    :param widened: the ends of the moves.
    """
    figures: _report.Figures = {'wide_after_s': None, 'rest_of_stripe': None}
    if stripe_mbps:
        figures['wide_after_s'] = series.stays(begin, end, KEPT * stripe_mbps)
        rest = series.window(max(widened, default=begin), end)
        if rest:
            figures['rest_of_stripe'] = rest.mbps / stripe_mbps
    return figures


def _compare(load: Series, move: Move) -> _Comparison:
    """Return throughput and p99 during a move over those before it.

    The third figure is the p99 during the move in milliseconds.
    """
    before = load.window(move.before, move.begin)
    during = load.window(move.begin, move.until)
    if not before or not during or not before.p99_ms:
        return None, None, None
    slower = during.p99_ms / before.p99_ms if during.p99_ms else None
    return during.mbps / before.mbps, slower, during.p99_ms


def _copy_mbps(steps: list[Found], widens: bool) -> float | None:
    """Return the mean rate of the kernel's copies, while it is bounded.

    It is that from the first look at each copy to the last one.
    """
    size = seconds = 0.0
    for step in steps:
        old, new = (len(set(step[name])) for name in ('old', 'new'))
        if 'looks' in step and (new > old) == widens:
            (begin, before), (end, after) = step['looks']
            size += after - before
            seconds += end - begin
    return size / seconds / MB if seconds else None


def goals() -> list[_report.Goal]:
    """As good as a fixed stripe in two minutes, narrow again, felt little."""
    return [
        _report.Goal('wide_after_s', '<=', WIDE_WITHIN_S),
        _report.Goal('rest_of_stripe', '>=', KEPT),
        _report.Goal('widen_kept', '>=', KEPT),
        _report.Goal('widen_slower', '<=', SLOWER),
        _report.Goal('narrow_kept', '>=', KEPT),
        _report.Goal('narrow_slower', '<=', SLOWER),
        _report.Goal('neighbour_kept', '>=', KEPT),
        _report.Goal('failed_moves', '==', 0),
        _report.Goal('end_width', '==', 1),
    ]
