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

"""Statistics of repeated measurements."""

import collections.abc
import math
import statistics
import typing

Values = collections.abc.Sequence[float]


class Interval(typing.NamedTuple):
    """A mean, and half of the width of its confidence interval."""

    mean: float
    half: float

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


class Spread(typing.NamedTuple):
    """A median, the lowest and the highest of some values."""

    median: float
    low: float
    high: float


def spread(values: Values) -> Spread:
    """Return the median and the ends of measured values.

    :raises ValueError: there are no values.
    """
    return Spread(statistics.median(values), min(values), max(values))


def within(t: float, df: int) -> float:
    """Return the probability that Student's t is between ``-t`` and ``t``.

    The finite sums for whole degrees of freedom: Abramowitz and Stegun,
    Handbook of Mathematical Functions, 26.7.3 and 26.7.4.

    :param df: degrees of freedom, 1 or more.
    """
    angle = math.atan2(t, math.sqrt(df))
    cosine = math.cos(angle)
    # powers of the cosine: 0, 2, ... if df is even, else 1, 3, ...
    power = df % 2
    term, total = (cosine if power else 1.0), 0.0
    while power <= df - 2:
        total += term
        term *= cosine**2 * (power + 1) / (power + 2)
        power += 2
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if df % 2 else total


def student_t(confidence: float, df: int) -> float:
    """Return the t that is not exceeded, to either side, so probably.

    :raises ValueError: a confidence not between 0 and 1, or no freedom.
    """
    if not 0 < confidence < 1 or df < 1:
        raise ValueError(
            f'confidence {confidence}, {df} degrees of freedom: must be '
            'between 0 and 1, and at least 1'
        )
    low, high = 0.0, 1.0
    while within(high, df) < confidence:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        if within(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return high


def interval(values: Values, confidence: float = 0.95) -> Interval:
    """Return the mean of a normal variable by Student's t.

    :raises ValueError: fewer than two values, which have no spread.
    """
    if len(values) < 2:
        raise ValueError(f'{len(values)} values: must be at least 2')
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Interval(
        statistics.fmean(values),
        student_t(confidence, len(values) - 1) * error,
    )


def ratio(values: Values, others: Values) -> tuple[float, float, float]:
    """Compare two variables that were measured in pairs.

    What changed for both from one pair to the next is not held against
    either.

    :returns: the ratio of their geometric means, and the ends of its 95 %
        confidence interval.
    :raises ValueError: not as many values as others, or fewer than two.
    """
    logs = [
        math.log(value / other)
        for value, other in zip(values, others, strict=True)
    ]
    mean_log = interval(logs)
    return (
        math.exp(mean_log.mean),
        math.exp(mean_log.low),
        math.exp(mean_log.high),
    )


def pooled(
    rows: collections.abc.Sequence[collections.abc.Mapping[int, float]],
    confidence: float = 0.95,
) -> Interval:
    """Return the mean over variables that the same repetitions measured.

    Each variable counts the same. What changes for all of them from one
    repetition to the next makes the interval wider, the differences between
    the variables do not.

    :param rows: of each variable, its values by repetition; some may lack.
    :raises ValueError: there are fewer than two repetitions.
    """
    means = [statistics.fmean(row.values()) for row in rows]
    changes: dict[int, list[float]] = {}
    for row, mean in zip(rows, means, strict=True):
        for repetition, value in row.items():
            changes.setdefault(repetition, []).append(value - mean)
    half = interval(
        [statistics.fmean(deviations) for deviations in changes.values()],
        confidence,
    ).half
    return Interval(statistics.fmean(means), half)


def jain(rates: Values) -> float:
    """Return Jain's fairness index: 1 if all are the same, at least 1/n.

    As P3 defines it under "Jain Fairness Index": the square of the sum over n
    times the sum of squares. Rates of which none is above 0 are the same.
    """
    squares = sum(rate**2 for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0
