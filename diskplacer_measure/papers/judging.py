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

"""Judges the claims of the papers by the results of a sweep."""

import collections.abc
import dataclasses

from diskplacer_measure.papers import claims
from diskplacer_measure.papers import p0
from diskplacer_measure.papers import p3
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import rules

CLAIMS = (*p0.CLAIMS, *p3.CLAIMS)

#: The requests in flight of asynchronous threads: P0 section IV-B; P3, The
#: measurement methodology.
DEPTHS = {'P0': 256, 'P3': 32}


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim with its checks.

    ``why`` is the reason that it was not measured.
    """

    claim: claims.Claim
    verdict: str
    checks: tuple[rules.Check, ...]
    why: str = ''


def judge(
    claim: claims.Claim, results: collections.abc.Iterable[cells.Result]
) -> Judged:
    """Judge a claim by those results that have no problem.

    It is refuted if one of its checks is, and reproduced if all are. The
    intervals of all its checks hold at once with 95 %, after Bonferroni. Of
    asynchronous requests, those in flight are as near to the paper's number
    as there are.
    """
    near = at_depth(list(results), DEPTHS[claim.paper])
    checks = _checks(claim, rules.counted(near))
    verdict = _whole([check.verdict for check in checks])
    why = ''
    if verdict == rules.NOT_MEASURED:
        # the cells alone matter, and a cell that failed has no throughput
        marked = _checks(
            claim,
            rules.by_cell(
                dataclasses.replace(result, mbps=1.0) for result in near
            ),
        )
        why = (
            'cells are missing'
            if _whole([check.verdict for check in marked]) == verdict
            else 'cells have a problem'
        )
    return Judged(claim, verdict, tuple(checks), why)


def at_depth(
    results: collections.abc.Collection[cells.Result], depth: int
) -> list[cells.Result]:
    """Return the results, of asynchronous ones those nearest to a depth."""
    depths = {
        result.cell.depth
        for result in results
        if result.cell.engine == 'async'
    }
    nearest = min(
        depths, key=lambda other: (abs(other - depth), other), default=0
    )
    return [
        result
        for result in results
        if result.cell.engine != 'async' or result.cell.depth == nearest
    ]


def _checks(claim: claims.Claim, results: rules.Results) -> list[rules.Check]:
    compared = claim.rule(results)
    confidence = 1 - 0.05 / max(len(compared), 1)
    return [comparison.check(confidence) for comparison in compared]


def _whole(verdicts: list[str]) -> str:
    for verdict in (rules.REFUTED, rules.NOT_MEASURED, rules.NOT_TOLD_APART):
        if verdict in verdicts:
            return verdict
    return rules.REPRODUCED if verdicts else rules.NOT_MEASURED
