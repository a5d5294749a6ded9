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

"""Verdicts on the papers' claims, computed without the code of the docs.

Only the tables of claims and the files of results are read, by other code than
that of the page on papers and results. A test compares both. Without arguments
the script prints how many claims of each paper came out how.
"""

import collections
import json
import math
import pathlib
import re
import typing

import yaml

TOP = pathlib.Path(__file__).parents[1]


Figures = dict[str, float | None]
Ends = tuple[float, float]


def ends(figures: Figures, name: str) -> Ends | None:
    """Return the lowest and the highest of a figure, or of two combined.

    None if it is not measured, or divided by 0. If one of two has no interval,
    they have none. A divisor that may be 0 or less leaves a quotient without
    bounds.
    """
    one, *others = name.split()
    value = figures.get(one)
    if value is None:
        return None
    spread = _spread(figures, one)
    if not others:
        return spread or (value, value)
    sign, other = others
    value_of_other = figures.get(other)
    if value_of_other is None or (sign, value_of_other) == ('/', 0):
        return None
    first, second = spread, _spread(figures, other)
    if first is None or second is None:
        first, second = (value, value), (value_of_other, value_of_other)
    elif sign == '/' and second[0] <= 0:
        return -math.inf, math.inf
    if sign == '-':
        return first[0] - second[1], first[1] - second[0]
    # each end is that of the divisor which makes it lowest, or highest
    return (
        first[0] / (second[1] if first[0] >= 0 else second[0]),
        first[1] / (second[0] if first[1] >= 0 else second[1]),
    )


def _spread(figures: Figures, name: str) -> Ends | None:
    for low, high in (('_low', '_high'), ('_min', '_max')):
        pair = figures.get(name + low), figures.get(name + high)
        if pair[0] is not None and pair[1] is not None:
            return pair[0], pair[1]
    return None


def verdict(claim: dict[str, typing.Any], figures: Figures) -> str:
    """Return the verdict on a row of a table.

    :param figures: those of the result of the row, {} if it has none.
    """
    if 'not_measurable' in claim:
        return 'not measurable here'
    worst = 0 if claim.get('reproduced_if') else 2
    for condition in claim.get('reproduced_if', ()):
        name, sign, limit = re.split(' (<=|>=) ', condition)
        found = ends(figures, name)
        if found is None:
            worst = max(worst, 2)
            continue
        low, high = found if sign == '>=' else (-found[1], -found[0])
        bound = float(limit) if sign == '>=' else -float(limit)
        # 0: all of the interval is allowed, 1: a part of it, 3: nothing
        worst = max(worst, 0 if low >= bound else 1 if high >= bound else 3)
    return ('reproduced', 'not told apart', 'not measured', 'refuted')[worst]


def verdicts() -> dict[str, list[str]]:
    """Return {paper: the verdicts on its claims}."""
    found: dict[str, list[str]] = {}
    for path in sorted((TOP / 'benchmarks' / 'fidelity').glob('P*.yaml')):
        found[path.stem] = []
        for claim in yaml.safe_load(path.read_text())['claims']:
            result = TOP / 'benchmarks' / 'results' / f'{claim.get("result")}'
            result = result.with_suffix('.json')
            figures = (
                json.loads(result.read_text())['figures']
                if result.exists()
                else {}
            )
            found[path.stem].append(verdict(claim, figures))
    return found


def main() -> None:
    every = verdicts()
    every['all'] = [one for paper in every.values() for one in paper]
    for paper, found in every.items():
        counts = collections.Counter(found)
        texts = [f'{count} {name}' for name, count in sorted(counts.items())]
        print(f'{paper}: {len(found)} claims: {", ".join(texts)}')


if __name__ == '__main__':
    main()
