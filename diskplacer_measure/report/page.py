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

"""Draws the report of a sweep as an HTML page that needs no other file."""

import collections
import collections.abc
import html
import importlib.resources
import math

from diskplacer_measure.papers import judging
from diskplacer_measure.report import contents
from diskplacer_measure.report import figures
from diskplacer_measure.report import svg
from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import rules
from nova_diskplacer.client import markup
from nova_diskplacer.profiles import catalogue

# Verdicts, with a sign for each that needs no colour.
_SIGNS = {
    rules.REPRODUCED: '✓',
    rules.REFUTED: '✗',
    rules.NOT_TOLD_APART: '≈',
    rules.NOT_MEASURED: '–',
}


def draw(report: contents.Report) -> str:
    """Return the report as a page of HTML."""
    looks = svg.styles(report.figures)
    style = importlib.resources.files(__package__).joinpath('report.css')
    title = f'I/O of servers on {report.header.host}'
    return '\n'.join(
        (
            '<!DOCTYPE html>',
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            markup.tag('title', html.escape(title)),
            f'<style>{style.read_text(encoding="utf-8")}</style>',
            '</head><body>',
            markup.tag('h1', html.escape(title)),
            _head(report),
            *(
                _figure(figure, report.claims, looks)
                for figure in report.figures
            ),
            _problems(report.problems),
            _papers(),
            '</body></html>\n',
        )
    )


def _head(report: contents.Report) -> str:
    header = report.header
    parts = []
    if header.emulated:
        parts.append(
            _paragraph(contents.EMULATED, class_='banner', role='note')
        )
    parts.append(_summary(report.claims))
    parts.append(
        _paragraph(
            'Each claim of P0 and P3 that a sweep can judge stands below the '
            'figure that it belongs to. Reproduced: all of the 95 % '
            'confidence interval is in the range that the claim allows. '
            'Refuted: none of it is. Not told apart: a part of it is. The '
            'intervals of one claim hold at once with 95 %.'
        )
    )
    if report.missing:
        parts.append(
            _paragraph(
                f'{report.missing} planned results are not there: the run has '
                'not ended.',
                class_='banner',
            )
        )
    if report.overcommitted:
        parts.append(
            _paragraph(
                f'The host has {header.cpus} processors. These servers have '
                'more vCPUs together: ' + '; '.join(report.overcommitted) + '.'
            )
        )
    parts.append(_facts(header))
    return '\n'.join(parts)


def _summary(claims: collections.abc.Iterable[judging.Judged]) -> str:
    """Return the number of claims with each verdict."""
    verdicts = collections.Counter(judged.verdict for judged in claims)
    return markup.tag(
        'p',
        ' '.join(
            _badge(verdict, f'{verdicts[verdict]} {verdict}')
            for verdict in _SIGNS
        ),
        id='summary',
    )


def _facts(header: results.Header) -> str:
    """Return the disk, the host, the versions and the limits of a run."""
    versions = (
        ('fio', header.fio),
        ('QEMU', header.qemu),
        ('libvirt', header.libvirt),
        ('Nova', header.nova),
    )
    facts = {
        'Disk': f'{header.disk.model} ({header.disk.medium}), '
        f'{header.disk.bytes / 1e9:,.0f} GB',
        'Host': f'{header.cpus} processors, {header.memory_mib:,} MiB of '
        f'memory, Linux {header.kernel}',
        'Versions': ', '.join(
            f'{name} {version}' for name, version in versions if version
        ),
        'Each cell': f'{header.data_mib:,} MiB in requests of '
        f'{header.block_kib} KiB, {header.seconds} s at most, '
        f'{header.repetitions} repetitions',
        'Run': f'{header.id}, begun {header.started}',
    }
    rows = ''.join(
        markup.tag('dt', name) + markup.tag('dd', html.escape(text))
        for name, text in facts.items()
    )
    return markup.tag('dl', rows, id='facts')


def _figure(
    figure: figures.Figure,
    claims: collections.abc.Iterable[judging.Judged],
    looks: svg.Styles,
) -> str:
    parts = [
        markup.tag('h2', html.escape(figure.title)),
        _paragraph(figure.text),
    ]
    if figure.panels:
        parts.append(_legend(figure, looks))
        parts += [_row(panels, looks) for panels in _rows(figure.panels)]
    else:
        parts.append(_paragraph('Not measured.', class_='nothing'))
    figure_claims = [
        judged for judged in claims if judged.claim.figure == figure.name
    ]
    if figure_claims:
        parts.append(
            markup.tag(
                'ul', ''.join(map(_claim, figure_claims)), class_='claims'
            )
        )
    return markup.tag('section', '\n'.join(parts), data_figure=figure.name)


def _rows(
    panels: collections.abc.Iterable[figures.Panel],
) -> list[list[figures.Panel]]:
    """Return panels by metric and row, which have the same axis."""
    rows: dict[tuple[str, str], list[figures.Panel]] = {}
    for panel in panels:
        rows.setdefault((panel.metric.name, panel.row), []).append(panel)
    return list(rows.values())


def _row(panels: list[figures.Panel], looks: svg.Styles) -> str:
    top = svg.highest(panels)
    return markup.tag(
        'div',
        ''.join(
            markup.tag(
                'figure',
                markup.tag('figcaption', html.escape(panel.title))
                + svg.plot(panel, looks, top)
                + _table(panel),
            )
            for panel in panels
        ),
        class_='panels',
    )


def _legend(figure: figures.Figure, looks: svg.Styles) -> str:
    labels = dict.fromkeys(
        series.label for panel in figure.panels for series in panel.series
    )
    items = [svg.sample(looks[label]) + html.escape(label) for label in labels]
    if any(
        not point.repetitions
        for panel in figure.panels
        for series in panel.series
        for point in series.points
    ):
        items.append(
            svg.sample(0, hollow=True)
            + 'hollow: has a problem, does not count'
        )
    items.append('bars: 95 % confidence interval')
    return markup.tag(
        'ul',
        ''.join(markup.tag('li', item) for item in items),
        class_='legend',
    )


def _table(panel: figures.Panel) -> str:
    unit = f', {panel.metric.unit}' if panel.metric.unit else ''
    columns = (
        'Series',
        'Threads',
        f'{panel.metric.name}{unit}',
        '95 % interval',
        'Repetitions',
        'Problem',
    )
    head = ''.join(
        markup.tag('th', html.escape(column), scope='col')
        for column in columns
    )
    rows = [
        (
            series.label,
            point.threads,
            svg.number(point.mean),
            '–'
            if point.low is None or point.high is None
            else f'{svg.number(point.low)} to {svg.number(point.high)}',
            point.repetitions,
            '; '.join(point.problems),
        )
        for series in panel.series
        for point in series.points
    ]
    return markup.tag(
        'details',
        markup.tag('summary', 'Table')
        + markup.tag(
            'div',
            markup.tag(
                'table',
                markup.tag('tr', head) + ''.join(map(_table_row, rows)),
            ),
            class_='scroll',
        ),
    )


def _table_row(values: collections.abc.Iterable[object]) -> str:
    return markup.tag(
        'tr',
        ''.join(markup.tag('td', html.escape(str(value))) for value in values),
    )


def _claim(judged: judging.Judged) -> str:
    claim = judged.claim
    parts = [
        _badge(judged.verdict, judged.verdict),
        ' ',
        markup.tag('strong', html.escape(claim.sentence)),
        _paragraph(
            f'Paper ({claim.paper} {claim.place}): {claim.theirs}.',
            class_='theirs',
        ),
    ]
    parts += [
        _paragraph(
            f'{_SIGNS[check.verdict]} {check_text(check)}', class_='ours'
        )
        for check in judged.checks
        if check.cells
    ]
    notes = [claim.note, f'Not measured: {judged.why}.' if judged.why else '']
    if note := ' '.join(filter(None, notes)):
        parts.append(_paragraph(note, class_='note'))
    return markup.tag('li', ''.join(parts), data_verdict=judged.verdict)


def check_text(check: rules.Check) -> str:
    """Return a figure with its interval, and the range of the claim."""
    low, high = check.allowed
    if high == math.inf:
        allowed = f'{low:g} or more'
    else:
        allowed = f'{high:g} or less' if not low else f'{low:g} to {high:g}'
    single = (
        f'; single cells {svg.number(check.least)} to {svg.number(check.most)}'
        if check.cells > 1
        else ''
    )
    return (
        f'Here, {check.text}: {svg.number(check.value)} '
        f'({svg.number(check.low)} to {svg.number(check.high)}), allowed '
        f'{allowed}; n = {check.repetitions} repetitions of {check.cells} '
        f'cell{"s" if check.cells > 1 else ""}{single}.'
    )


def _problems(failed: list[cells.Result]) -> str:
    if not failed:
        return ''
    counted = collections.Counter(
        (labels.cell(result.cell), result.problem or 'no throughput')
        for result in failed
    )
    items = ''.join(
        markup.tag(
            'li',
            html.escape(
                f'{cell}: {problem} ({number} '
                f'repetition{"s" if number > 1 else ""})'
            ),
        )
        for (cell, problem), number in sorted(counted.items())
    )
    return markup.tag(
        'section',
        markup.tag('h2', f'{len(failed)} results that do not count')
        + markup.tag(
            'details',
            markup.tag('summary', f'{len(counted)} cells')
            + markup.tag('ul', items),
        ),
        id='problems',
    )


def _papers() -> str:
    items = ''.join(
        markup.tag('li', html.escape(f'{paper}: {catalogue.PAPERS[paper]}'))
        for paper in judging.DEPTHS
    )
    return markup.tag(
        'section',
        markup.tag('h2', 'Papers') + markup.tag('ul', items),
        id='papers',
    )


def _badge(verdict: str, text: str) -> str:
    return markup.tag(
        'span',
        f'{_SIGNS[verdict]} {html.escape(text)}',
        class_=f'badge {verdict.replace(" ", "-")}',
    )


def _paragraph(text: str, **attributes: object) -> str:
    return markup.tag('p', html.escape(text), **attributes)
