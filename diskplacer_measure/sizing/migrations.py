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

"""The cost of CPU migrations, by runs with pinned and with floating vCPUs.

A regression cannot show it. Migrations that cost nothing come at some rate,
and a run that takes longer for any reason has more of them: with P1's design
(§III-B) that alone gives R² of 0.86 to 0.91, and a slope. So each block of
runs has one with pinned vCPUs and one with floating ones, in random order, and
all else is the same: pinning caused the difference.
"""

import collections.abc
import dataclasses
import math

from diskplacer_measure import stats
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import regression

COSTS = 'migrations cost time'
NO_EFFECT = 'no effect'
SAVES = 'floating saves time'
NOT_TOLD_APART = 'not told apart'

# An operator pins servers because of the verdict: one in a hundred experiments
# with migrations that cost nothing may be wrong, not one in twenty.
_VERDICT_CONFIDENCE = 0.99

_LEAST_BLOCKS = 3


@dataclasses.dataclass(frozen=True)
class Block:
    """A run with pinned vCPUs and one with floating vCPUs.

    Times are in seconds, migrations in events of all vCPUs.
    """

    pinned_seconds: float
    floating_seconds: float
    pinned_migrations: float
    floating_migrations: float


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A value, and the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of migrations.

    ``seconds`` and ``migrations`` are the differences of a floating run to a
    pinned one, with 95 % intervals; ``seconds_99`` has the one of 99 %.
    ``each`` is their quotient, the seconds that a migration takes, with a 95 %
    interval by Fieller's theorem; None if the migrations of both kinds of runs
    do not differ significantly. ``verdict`` is COSTS or SAVES only if the 99 %
    interval of the time excludes 0.
    """

    blocks: int
    seconds: Estimate
    seconds_99: Estimate
    migrations: Estimate
    each: Estimate | None
    verdict: str


def cost(blocks: collections.abc.Sequence[Block]) -> Cost:
    """Return the cost of migrations, from blocks of two runs.

    :raises SizingError: there are fewer than three blocks.
    """
    if len(blocks) < _LEAST_BLOCKS:
        raise errors.SizingError(
            f'{len(blocks)} blocks of a pinned and a floating run: at least '
            f'{_LEAST_BLOCKS} are needed'
        )
    times = [block.floating_seconds - block.pinned_seconds for block in blocks]
    moves = [
        block.floating_migrations - block.pinned_migrations for block in blocks
    ]
    seconds = _estimate(times, regression.CONFIDENCE)
    wide = _estimate(times, _VERDICT_CONFIDENCE)
    migrations = _estimate(moves, regression.CONFIDENCE)
    each = None
    if migrations.low > 0:
        ends = fieller(times, moves)
        each = Estimate(seconds.value / migrations.value, *ends)
    return Cost(
        blocks=len(blocks),
        seconds=seconds,
        seconds_99=wide,
        migrations=migrations,
        each=each,
        verdict=_verdict(wide, each is not None),
    )


def _estimate(values: stats.Values, confidence: float) -> Estimate:
    interval = stats.interval(values, confidence)
    return Estimate(interval.mean, interval.low, interval.high)


def _verdict(seconds: Estimate, told_apart: bool) -> str:
    if not told_apart:
        return NOT_TOLD_APART
    if seconds.low > 0:
        return COSTS
    return SAVES if seconds.high < 0 else NO_EFFECT


def fieller(values: stats.Values, others: stats.Values) -> tuple[float, float]:
    """Return the confidence interval of the quotient of two means.

    Fieller's theorem (Journal of the Royal Statistical Society B 16, 1954, p.
    175) for pairs of normal variables: the quotients q for which the mean of
    ``values - q * others`` does not differ significantly from 0.

    :raises ValueError: the mean of ``others`` does not differ significantly
        from 0, so that the interval has no ends.
    """
    n = len(values)
    mean, other = math.fsum(values) / n, math.fsum(others) / n
    t2 = stats.student_t(regression.CONFIDENCE, n - 1) ** 2 / (n * (n - 1))
    pairs = [
        (value - mean, below - other)
        for value, below in zip(values, others, strict=True)
    ]
    a = other**2 - t2 * math.fsum(v**2 for _, v in pairs)
    b = mean * other - t2 * math.fsum(u * v for u, v in pairs)
    c = mean**2 - t2 * math.fsum(u**2 for u, _ in pairs)
    if a <= 0:
        raise ValueError('the divisor is not told apart from 0')
    half = math.sqrt(max(0.0, b**2 - a * c))
    return (b - half) / a, (b + half) / a
