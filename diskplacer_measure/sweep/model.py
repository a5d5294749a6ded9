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

"""A model of throughput by the shape of servers: P0's open problem.

P0, section V-B and VI: "More research should be devoted to establish system
models to map VM flavors to their expected I/O performance". This one is a
linear regression by ordinary least squares. Each shape counts once, with the
settings of the highest candidate, so that the intervals include what the model
does not describe. Its error at a shape that was not measured is estimated by
its error at each shape when it is fitted to the others.
"""

import collections.abc
import dataclasses
import math
import statistics
import typing

import numpy

from diskplacer_measure import stats
from diskplacer_measure.sweep import choose

_SQUARE = 'square of log2 vCPUs'

# Different numbers of vCPUs without which a square fits anything.
_FOR_SQUARE = 4


@dataclasses.dataclass(frozen=True)
class Term:
    """A coefficient of the logarithm (base e) of throughput.

    ``low`` and ``high`` are the ends of its 95 % confidence interval.
    """

    name: str
    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Model:
    """A fitted model; ``without`` are terms that the shapes do not determine.

    ``error`` is the mean error at shapes that were left out, in per cent of
    their throughput, and ``mean_error`` that of the mean of the others.
    """

    terms: tuple[Term, ...]
    without: tuple[str, ...]
    shapes: int
    r_squared: float
    error: float
    mean_error: float

    @property
    def is_worse_than_mean(self) -> bool:
        return self.error >= self.mean_error


@dataclasses.dataclass(frozen=True)
class _Row:
    shape: tuple[int, int]
    terms: dict[str, float]
    value: float


def fit(choice: choose.Choice, data_mib: int) -> Model | None:
    """Return the model of a choice, None if it has fewer than 3 shapes.

    :param data_mib: MiB that the threads of a cell read or write together.
    """
    rows = _rows(choice, data_mib)
    shapes = {row.shape for row in rows}
    if len(shapes) < 3:
        return None
    # with as many terms as rows, a model describes anything
    names = _determined(rows, list(rows[0].terms), len(rows) - 2)
    solution, squares = _least_squares(rows, names)
    values = [row.value for row in rows]
    spread = statistics.pvariance(values) * len(values)
    return Model(
        tuple(_terms(rows, names, solution, squares)),
        tuple(name for name in rows[0].terms if name not in names),
        len(shapes),
        1 - squares / spread if spread else math.nan,
        *_mean_errors(rows, names),
    )


def _mean_errors(rows: list[_Row], names: list[str]) -> tuple[float, float]:
    """Return the errors at shapes that are left out of the fit.

    :returns: the mean error of the model, and that of the mean of the others,
        in per cent.
    """
    model_errors, mean_errors = [], []
    for row in rows:
        others = [other for other in rows if other.shape != row.shape]
        fit_names = _determined(others, names, len(others) - 1)
        coefficients, _ = _least_squares(others, fit_names)
        expected = float(_line(row, fit_names) @ coefficients)
        mean = statistics.fmean(other.value for other in others)
        model_errors.append(_error(expected, row.value))
        mean_errors.append(_error(mean, row.value))
    return statistics.fmean(model_errors), statistics.fmean(mean_errors)


def _rows(choice: choose.Choice, data_mib: int) -> list[_Row]:
    """Return the candidates with the settings of the highest."""
    if not choice.compared:
        return []
    settings = choice.compared[0].candidate.settings
    return [
        _Row(
            (row.candidate.vcpus, row.candidate.ram_mib),
            _values(row.candidate, choice.loads, data_mib),
            math.log(row.mbps),
        )
        for row in choice.compared
        if row.candidate.settings == settings
    ]


def _values(
    candidate: choose.Candidate,
    loads: collections.abc.Iterable[choose.Load],
    data_mib: int,
) -> dict[str, float]:
    vcpus = math.log2(candidate.vcpus)
    servers = 0.0
    if candidate.several:
        # a thread in each
        servers = statistics.fmean(
            math.log2(load.jobs or candidate.jobs) for load in loads
        )
    return {
        'log2 vCPUs': vcpus,
        'several servers': float(candidate.several),
        'log2 memory by data': math.log2(candidate.ram_mib / data_mib)
        + servers,
        _SQUARE: vcpus**2,
    }


def _determined(rows: list[_Row], names: list[str], most: int) -> list[str]:
    """Return those terms that vary on their own, the first ``most``."""
    determined: list[str] = []
    numbers = {row.terms['log2 vCPUs'] for row in rows}
    for name in names:
        if name == _SQUARE and len(numbers) < _FOR_SQUARE:
            continue
        more = [*determined, name]
        if (
            len(more) <= most
            and numpy.linalg.matrix_rank(_design(rows, more)) == len(more) + 1
        ):
            determined = more
    return determined


def _line(row: _Row, names: list[str]) -> typing.Any:
    return numpy.array([1.0, *(row.terms[name] for name in names)])


def _design(rows: list[_Row], names: list[str]) -> typing.Any:
    return numpy.array([_line(row, names) for row in rows])


def _least_squares(
    rows: list[_Row], names: list[str]
) -> tuple[typing.Any, float]:
    """Return the coefficients, and the sum of squares of the residuals."""
    design = _design(rows, names)
    values = numpy.array([row.value for row in rows])
    solution, _, _, _ = numpy.linalg.lstsq(design, values, rcond=None)
    residuals = values - design @ solution
    return solution, float(residuals @ residuals)


def _terms(
    rows: list[_Row], names: list[str], solution: typing.Any, squares: float
) -> collections.abc.Iterator[Term]:
    design = _design(rows, names)
    freedom = len(rows) - len(solution)
    inverse = numpy.linalg.inv(design.T @ design)
    t = stats.student_t(0.95, freedom)
    for place, name in enumerate(('constant', *names)):
        value = float(solution[place])
        half = t * math.sqrt(squares / freedom * float(inverse[place, place]))
        yield Term(name, value, value - half, value + half)


def _error(expected: float, measured: float) -> float:
    """Return an error in per cent, of logarithms."""
    return 100 * abs(math.exp(expected - measured) - 1)
