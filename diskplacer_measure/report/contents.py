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

"""The contents of a report: the papers' figures, and verdicts."""

import dataclasses
import math
import typing

from diskplacer_measure.papers import judging
from diskplacer_measure.report import figures
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import rules

#: The warning about servers without KVM.
EMULATED = (
    'These servers ran without KVM, on emulated processors: only directions '
    'count here, such as which is faster. How much faster means nothing for '
    'servers with KVM.'
)


@dataclasses.dataclass(frozen=True)
class Report:
    """The contents of the report of a run."""

    header: results.Header
    figures: list[figures.Figure]
    claims: list[judging.Judged]
    problems: list[cells.Result]
    overcommitted: list[str]
    missing: int


def make(run: results.Run) -> Report:
    """Return the figures and verdicts of a run.

    ``problems`` are the results that do not count, ``missing`` is the number
    of those that are planned and not there yet.
    """
    planned = len(run.header.plan) * run.header.repetitions
    return Report(
        run.header,
        figures.draw(run.results),
        [judging.judge(claim, run.results) for claim in judging.CLAIMS],
        [result for result in run.results if not rules.counts(result)],
        _overcommitted(run),
        planned - len(run.results),
    )


def _overcommitted(run: results.Run) -> list[str]:
    """Return the servers that have more vCPUs than the host processors."""
    return list(
        dict.fromkeys(
            f'{max(cell.servers, 1)} × '
            + labels.shape(cell.vcpus, cell.ram_mib)
            for cell in sorted({result.cell for result in run.results})
            if cell.servers * cell.vcpus > run.header.cpus
        )
    )


def data(report: Report) -> dict[str, typing.Any]:
    """Return the report for JSON, in which an unknown value is null."""
    header = dataclasses.asdict(report.header)
    del header['plan']
    return {
        'header': header,
        'missing': report.missing,
        'overcommitted': report.overcommitted,
        'figures': [
            {
                'name': figure.name,
                'title': figure.title,
                'panels': [
                    {
                        'title': panel.title,
                        'metric': panel.metric.name,
                        'unit': panel.metric.unit,
                        'series': [
                            dataclasses.asdict(series)
                            for series in panel.series
                        ],
                    }
                    for panel in figure.panels
                ],
            }
            for figure in report.figures
        ],
        'claims': [
            {
                'paper': judged.claim.paper,
                'name': judged.claim.name,
                'place': judged.claim.place,
                'figure': judged.claim.figure,
                'claim': judged.claim.sentence,
                'theirs': judged.claim.theirs,
                'note': judged.claim.note,
                'verdict': judged.verdict,
                'why': judged.why,
                'checks': [_check_data(check) for check in judged.checks],
            }
            for judged in report.claims
        ],
        'problems': [
            {
                **dataclasses.asdict(result.cell),
                'repetition': result.repetition,
                'problem': result.problem or 'no throughput',
            }
            for result in report.problems
        ],
    }


def _check_data(check: rules.Check) -> dict[str, typing.Any]:
    fields = dataclasses.asdict(check)
    allowed = fields.pop('allowed')
    fields |= {'allowed_low': allowed[0], 'allowed_high': allowed[1]}
    # JSON has neither NaN nor infinity
    return {'verdict': check.verdict} | {
        key: None
        if isinstance(value, float) and not math.isfinite(value)
        else value
        for key, value in fields.items()
    }
