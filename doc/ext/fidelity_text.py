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


"""Text of the papers' claims beside our figures, as reStructuredText."""

import collections
import collections.abc

import _fidelity
import _results


def number(value: float) -> str:
    """Return a number as text, with three digits or all before the point."""
    text = f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.3g}'
    return text.replace('-', '−')


def value_text(value: _results.Value, unit: str) -> str:
    """Return a figure with its unit and interval."""
    text = f'{number(value.value)} {unit}'.rstrip()
    if value.low is None or value.high is None:
        return text
    if not value.bounded:
        return f'{text} (no bounded interval)'
    ends = f'{value.kind} {number(value.low)} to {number(value.high)}'
    return f'{text} ({ends.lstrip()})'


def measured(results: _results.Results, text: str) -> str:
    """Return the figure that ``RESULT FIGURE [/ FIGURE] [UNIT]`` names.

    :raises ValueError: the text is not like that, or the result has no such
        figure.
    """
    name, _, rest = ' '.join(text.split()).partition(' ')
    figure, unit = _fidelity.parse_ours(rest)
    if name not in results:
        return _fidelity.NOT_MEASURED
    for one in _results.figures_of(figure):
        if one not in results[name].figures:
            raise ValueError(f'{name}.json has no figure {one}')
    value = results[name].value(figure)
    return value_text(value, unit) if value else _fidelity.NOT_MEASURED


def verdict(
    papers: collections.abc.Mapping[str, _fidelity.Paper],
    results: _results.Results,
    text: str,
) -> str:
    """Return the verdict on the first claim that ``PAPER FIGURE`` answers.

    :raises ValueError: there is no such claim.
    """
    name, _, figure = ' '.join(text.split()).partition(' ')
    for claim in papers[name].claims if name in papers else ():
        if any(ours.name == figure for ours in claim.ours):
            return claim.verdict(results)
    raise ValueError(f'{text}: must be PAPER FIGURE of a claim')


def summary_lines(
    papers: collections.abc.Mapping[str, _fidelity.Paper],
    results: _results.Results,
) -> list[str]:
    """Return how many claims and items of each paper came out how."""
    text: list[str] = []
    for title, kinds, found in (
        (
            'Claims',
            _fidelity.VERDICTS,
            {
                name: [claim.verdict(results) for claim in paper.claims]
                for name, paper in papers.items()
            },
        ),
        (
            'Methods and parts',
            _fidelity.STATES,
            {
                name: [item.state for item in paper.items]
                for name, paper in papers.items()
            },
        ),
    ):
        rows = [[f'{title} of', *map(str.capitalize, kinds), 'All']]
        for name, states in found.items():
            rows.append([name, *_counted(states, kinds)])
        every = [state for states in found.values() for state in states]
        rows.append(['All', *_counted(every, kinds)])
        text += table([1] * len(rows[0]), rows)
    return text


def _counted(
    states: collections.abc.Collection[str],
    kinds: collections.abc.Iterable[str],
) -> list[str]:
    counts = collections.Counter(states)
    return [str(counts[kind]) for kind in kinds] + [str(len(states))]


def paper_lines(
    paper: _fidelity.Paper, results: _results.Results
) -> list[str]:
    """Return the tables of a paper as reStructuredText."""
    claims = [['Claim', 'Paper', 'Here', 'Verdict']]
    for claim in paper.claims:
        claims.append(
            [
                f'{claim.claim}\n\n*{claim.place}*',
                claim.theirs,
                _here(claim, results),
                f'**{claim.verdict(results)}**',
            ]
        )
    items = [['Method or part', 'Here', 'State']]
    for item in paper.items:
        where = ', '.join(f'``{path}``' for path in item.where)
        parts = [where, item.partly, item.missing, _command(item.command)]
        items.append(
            [
                f'{item.item}\n\n*{item.place}*',
                '\n\n'.join(part for part in parts if part),
                item.state,
            ]
        )
    return [
        *table([32, 16, 37, 15], claims),
        *table([40, 44, 16], items),
    ]


def _here(claim: _fidelity.Claim, results: _results.Results) -> str:
    values = claim.values(results)
    parts: list[str | None] = []
    for ours in claim.ours:
        texts = []
        if ours in values:
            texts.append(value_text(values[ours], ours.unit))
        if limits := _allowed(claim, ours):
            texts.append(limits)
        if texts:
            parts.append(f'{ours.label}: {"; ".join(texts)}')
    if values:
        parts.append(f'On {results[str(claim.result)].date}')
    parts += [_beside(claim, results)]
    parts += [claim.not_measured, claim.not_measurable, claim.note]
    if claim.result:
        parts.append(f'Result: ``{claim.result}``')
    parts.append(_command(claim.command))
    return '\n\n'.join(part for part in parts if part)


def _allowed(claim: _fidelity.Claim, ours: _fidelity.Ours) -> str:
    """Return the figures that a claim allows, '' if any is."""
    limits = {
        goal.op: f'{number(goal.value)} {ours.unit}'.strip()
        for goal in claim.reproduced_if
        if goal.figure == ours.name
    }
    least, most = limits.get('>='), limits.get('<=')
    if least and most:
        return f'allowed: {least} to {most}'
    if least or most:
        return f'allowed: at {f"least {least}" if least else f"most {most}"}'
    return ''


def _beside(claim: _fidelity.Claim, results: _results.Results) -> str:
    """Return what other disks say of a claim."""
    other = claim.other()
    values = other.values(results) if other else {}
    if other is None or not values:
        return ''
    figures = ', '.join(
        f'{ours.label}: {value_text(value, ours.unit)}'
        for ours, value in values.items()
    )
    return f'In ``{other.result}`` *{other.verdict(results)}*: {figures}'


def _command(command: str | None) -> str:
    return f'``{command}``' if command else ''


def result_lines(results: _results.Results) -> list[str]:
    """Return when and how each result came."""
    if not results:
        return ['No result is committed yet.', '']
    rows = [['Result', 'Date and command', 'Machine', 'Code']]
    for name, result in results.items():
        rows.append(
            [
                f'``{name}``',
                f'{result.date}\n\n``{result.command}``',
                _machine_text(result.machine),
                code_text(result),
            ]
        )
    return table([18, 34, 22, 26], rows)


def _machine_text(machine: _results.Machine) -> str:
    text = f'Linux {machine.kernel}, {machine.cores} CPUs'
    if machine.cpu:
        text += f' ({machine.cpu})'
    if machine.load is not None:
        text += f', load {number(machine.load)} at the start'
    return text


def code_text(result: _results.Result) -> str:
    """Say which code a result has measured, and whether it is that of now."""
    if not result.code:
        return (
            'Measured before results recorded their code. The code it '
            'measures may have changed since.'
        )
    text = f'Measured at revision {result.revision or "unknown"}'
    paths = result.changed()
    if not paths:
        return f'{text}, with the code as it is here.'
    for what, some in (
        ('the code it measures has changed since', result.code),
        (
            'may have changed, as no hash is recorded',
            set(paths) - {*result.code},
        ),
    ):
        if found := ', '.join(f'``{path}``' for path in paths if path in some):
            text += f'; {what}: {found}'
    return f'{text}.'


def note_lines(
    results: _results.Results, names: collections.abc.Iterable[str]
) -> list[str]:
    """Return the note of a page that shows figures of these results."""
    lines = ['.. rubric:: Results on this page', '']
    for name in sorted(names):
        if name in results:
            one = results[name]
            lines += [
                f'* ``{name}``, {one.date}, {_machine_text(one.machine)}: '
                f'``{one.command}``. {code_text(one)}'
            ]
        else:
            lines += [f'* ``{name}``: not measured yet.']
    return [*lines, '']


def table(
    widths: collections.abc.Iterable[int],
    rows: collections.abc.Iterable[collections.abc.Sequence[str]],
) -> list[str]:
    """Return rows, of which the first is the head, as a table."""
    text = [
        '.. list-table::',
        '   :header-rows: 1',
        f'   :widths: {" ".join(map(str, widths))}',
        '',
    ]
    for row in rows:
        for column, cell in enumerate(row):
            first, *others = cell.splitlines() or ['']
            text.append(f'   {" " if column else "*"} - {first}'.rstrip())
            text += [f'       {line}'.rstrip() for line in others]
    return [*text, '']
