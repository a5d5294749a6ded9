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

"""Ordinary least squares: regressions of running times on counters.

A coefficient shows a correlation, not a cause: P1 reads it as
the cost of an event (§III-B), which takes ``migrations`` to know.
"""

import collections.abc
import dataclasses

import numpy
import numpy.typing

from diskplacer_measure import stats
from diskplacer_measure.sizing import errors

Floats = numpy.typing.NDArray[numpy.float64]

CONFIDENCE = 0.95

# Belsley, Kuh and Welsch, Regression Diagnostics (1980), §3.2: from 30 on a
# condition index means moderate to strong dependence.
_COLLINEAR = 30.0

# Above it counters depend on each other but for errors of rounding.
_SINGULAR = 1e10

# A common rule: fewer runs for each counter fit the runs, not the server.
_RUNS_PER_COUNTER = 10

# The 95 % point of chi-square with one degree of freedom.
_CHI_SQUARE = 3.841


@dataclasses.dataclass(frozen=True)
class Coefficient:
    """The time in seconds that goes with one more event of a counter.

    The other counters are held constant.

    ``low`` and ``high`` are the ends of the 95 % confidence interval.
    ``share`` is the part of the mean running time that the counter explains:
    ``seconds`` times the mean count, divided by the mean time. ``partial_r2``
    is the part of the variance that the other counters leave and this one
    explains.
    """

    name: str
    seconds: float
    low: float
    high: float
    share: float
    partial_r2: float


@dataclasses.dataclass(frozen=True)
class Fit:
    """A regression of running times on counters.

    ``intercept`` is in seconds. ``condition`` is the condition number of the
    counters, each divided by its spread around its mean: 1 if they are
    uncorrelated. ``problems`` are reasons not to rely on the fit.
    """

    runs: int
    intercept: float
    coefficients: tuple[Coefficient, ...]
    r2: float
    condition: float
    problems: tuple[str, ...]


def fit(
    counts: collections.abc.Mapping[str, collections.abc.Sequence[float]],
    seconds: collections.abc.Sequence[float],
) -> Fit:
    """Fit the running times of n runs by a constant and k counters.

    :param counts: n counts by the name of each counter.
    :raises SizingError: there are fewer than k + 2 runs, no counters, a
        counter or the time is the same in all runs, or a counter is the sum
        of others.
    """
    times = numpy.asarray(seconds, float)
    runs, names = len(times), list(counts)
    if not names:
        raise errors.SizingError('no counter to explain running times by')
    least = len(names) + 2
    if runs < least:
        raise errors.SizingError(
            f'{runs} runs with {len(names)} counters, {", ".join(names)}: '
            f'at least {least} are needed'
        )
    x = numpy.array([counts[name] for name in names], float).T
    deviations, centred = x - x.mean(axis=0), times - times.mean()
    norms = numpy.sqrt((deviations**2).sum(axis=0))
    _check_spread(names, norms, x, centred, times)
    # counters differ by many powers of ten
    scaled = deviations / norms
    condition = float(numpy.linalg.cond(scaled))
    if condition > _SINGULAR:
        raise errors.SizingError(
            f'the counters {", ".join(names)} determine each other (condition '
            f'number {condition:.1e}): leave some out'
        )
    solution, *_ = numpy.linalg.lstsq(scaled, centred, rcond=None)
    residuals = centred - scaled @ solution
    freedom = runs - len(names) - 1
    unexplained = float(residuals @ residuals)
    variances = numpy.diag(numpy.linalg.inv(scaled.T @ scaled))
    slopes = solution / norms
    halves = (
        stats.student_t(CONFIDENCE, freedom)
        * numpy.sqrt(unexplained / freedom * variances)
        / norms
    )
    # the squares that would be unexplained, too, without the counter
    added = solution**2 / variances
    return Fit(
        runs=runs,
        intercept=float(times.mean() - slopes @ x.mean(axis=0)),
        coefficients=tuple(
            Coefficient(
                name=name,
                seconds=float(slope),
                low=float(slope - half),
                high=float(slope + half),
                share=float(slope * mean / times.mean()),
                partial_r2=float(more / (more + unexplained)),
            )
            for name, slope, half, mean, more in zip(
                names, slopes, halves, x.mean(axis=0), added, strict=True
            )
        ),
        r2=1 - unexplained / float(centred @ centred),
        condition=condition,
        problems=tuple(
            _problems(scaled, residuals, scaled @ solution, condition)
        ),
    )


def _check_spread(
    names: list[str], norms: Floats, x: Floats, centred: Floats, times: Floats
) -> None:
    tiny = numpy.sqrt(numpy.finfo(float).eps)
    sizes = numpy.sqrt((x**2).sum(axis=0))
    same = [
        name
        for name, norm, size in zip(names, norms, sizes, strict=True)
        if norm <= tiny * size
    ]
    if same:
        raise errors.SizingError(
            f'{", ".join(same)}: the same in all runs, so that nothing can be '
            'said of it'
        )
    if numpy.linalg.norm(centred) <= tiny * numpy.linalg.norm(times):
        raise errors.SizingError(
            'all runs took the same time: there is nothing to explain'
        )


def _problems(
    scaled: Floats, residuals: Floats, fitted: Floats, condition: float
) -> collections.abc.Iterator[str]:
    runs, counters = scaled.shape
    if runs < _RUNS_PER_COUNTER * counters:
        yield (
            f'{runs} runs are few for {counters} counters: '
            f'{_RUNS_PER_COUNTER * counters} or more are better'
        )
    if condition >= _COLLINEAR:
        yield (
            f'the counters rise and fall together (condition number '
            f'{condition:.0f}, {_COLLINEAR:.0f} is much): the fit cannot tell '
            'which of them the time goes with'
        )
    if _spread_changes(residuals, fitted):
        yield (
            'the residuals grow or shrink with the running time '
            '(Breusch-Pagan): the intervals are not to be relied on'
        )


def _spread_changes(residuals: Floats, fitted: Floats) -> bool:
    """Tell whether the spread of residuals changes with the fitted values.

    The test of Breusch and Pagan in the form of Koenker (1981): n R² of the
    squared residuals on the fitted values is chi-square.
    """
    squares = residuals**2 - (residuals**2).mean()
    x = fitted - fitted.mean()
    both = numpy.linalg.norm(squares) * numpy.linalg.norm(x)
    if not both:
        return False
    r2 = float((squares @ x) / both) ** 2
    return len(residuals) * r2 > _CHI_SQUARE
