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

"""Tables of the results of placement_quality, as reStructuredText."""

import _placement_figures as figures_
import _results

_POLICIES = {
    'default': '**nova-diskplacer**, by default',
    'packing_x3': '... with a multiplier of 3',
    'packing_x1': '... with a multiplier of 1',
    'packing': "... without Nova's weighers",
    'today': 'Always spread, multiplier 1',
    'spread': "... without Nova's weighers",
    'random': 'Random host',
    'first_fit': 'First fit',
    'best_fit': 'Best fit by GiB',
    'nova_disk': "Nova's DiskWeigher",
    'topolvm': 'TopoLVM',
    'openebs_space': 'lvm-localpv, space',
    'openebs_volumes': 'lvm-localpv, volumes',
    'openebs_capacity': 'lvm-localpv, capacity',
}

# Figures in per cent, and others with so many digits.
_PERCENT = ('gib', 'requests', 'wide', 'widest')
_DIGITS = {'neighbours': 2, 'neighbours_p95': 1, 'gib_cv': 2, 'vcpus_cv': 2}

_HEADS = {
    'gib': 'GiB, %',
    'requests': 'Requests, %',
    'wide': 'Wide, %',
    'widest': 'Widest, %',
    'neighbours': 'Neighbours',
    'neighbours_p95': 'p95',
    'gib_cv': 'GiB CV',
    'vcpus_cv': 'vCPUs CV',
}

_OTHERS = {
    'media_80': 'Three shapes, two media, NUMA, 80 %',
    'media_90': 'The same, 90 %',
    'unlike_90': 'Disks of 2, 4 and 8 TB, 90 %',
    'narrow_90': '1 % wide requests, 90 %',
    'trace_90': 'Lifetimes of a trace, 90 %',
    'mbps_80': 'Claims of MB/s, 80 %',
    'cpu_85': 'vCPUs run out first, 85 %',
    'ram_85': 'RAM runs out first, 85 %',
}


_LOADS = {
    **{f'load_{load}': f'{load} %, 200 hosts' for load in (40, 60, 70)},
    **{f'load_{load}': f'{load} %, 200 hosts' for load in (80, 90, 95)},
    'large_90': '90 %, 1,000 hosts',
}

# What is compared, the ending of its figures, which is the worst, and where.
_EXTREMES = (
    *(
        (
            f'Least gain over {_POLICIES[policy]}, points',
            f'gain_over_{policy}',
            min,
            _OTHERS,
        )
        for policy in ('today', 'random', 'topolvm', 'best_fit')
    ),
    (
        'Most neighbours beside always spreading, times, equal hosts',
        'neighbours_ratio',
        max,
        _LOADS,
    ),
    ('The same in other fleets', 'neighbours_ratio', max, _OTHERS),
    (
        'Most neighbours beside other rules that accept as much, times, equal '
        'hosts',
        'neighbours_to_peer',
        max,
        _LOADS,
    ),
    ('The same in other fleets', 'neighbours_to_peer', max, _OTHERS),
)


def scenario_rows(result: _results.Result, name: str) -> list[list[str]]:
    """Return the figures of each policy of a scenario, with a head."""
    fields = figures_.Run._fields
    rows = [['Host chosen by', *(_HEADS[field] for field in fields)]]
    for policy, label in _POLICIES.items():
        cells = [
            cell(result, f'{name}_{policy}_{field}', field) for field in fields
        ]
        if all(cells):
            rows.append([label, *cells])
    return rows


def _pair(result: _results.Result, name: str) -> str:
    """Return the accepted GiB and the neighbours of a run."""
    return ' / '.join(
        cell(result, f'{name}_{field}', field)
        for field in ('gib', 'neighbours')
    )


def load_rows(result: _results.Result, loads: list[int]) -> list[list[str]]:
    """Return the accepted GiB and the neighbours by policy and load."""
    rows = [['Host chosen by', *(f'{load} %' for load in loads)]]
    for policy, label in _POLICIES.items():
        cells = (_pair(result, f'load_{load}_{policy}') for load in loads)
        rows.append([label, *cells])
    return rows


def other_rows(result: _results.Result) -> list[list[str]]:
    """Return the accepted GiB in other fleets, and the neighbours."""
    policies = ('default', 'today', 'random', 'topolvm', 'best_fit')
    rows = [['Fleet', *(_POLICIES[policy] for policy in policies)]]
    for name, label in _OTHERS.items():
        cells = (_pair(result, f'{name}_{policy}') for policy in policies)
        rows.append([label, *cells])
    return rows


def extreme_rows(result: _results.Result) -> list[list[str]]:
    """Return the worst scenario of each comparison, with its interval."""
    rows = [['Comparison', 'Worst in', 'Mean']]
    for label, figure, worst, scenarios in _EXTREMES:
        found = {
            name: value
            for name in scenarios
            if (value := result.value(f'{name}_{figure}'))
        }
        if found:
            name = worst(found, key=lambda one: found[one].value)
            text = _interval(found[name], figure.startswith('gain'))
            rows.append([label, scenarios[name], text])
    return rows


def holdout_rows(result: _results.Result) -> list[list[str]]:
    """Return the gains in mixes on which nothing was chosen."""
    rows = [['Beside', 'Mean', 'Lowest', 'Highest']]
    figures = {
        f'gain_over_{policy}': f'{_POLICIES[policy]}: gain, points'
        for policy in ('today', 'random', 'topolvm', 'best_fit')
    }
    figures['neighbours_ratio'] = f'{_POLICIES["today"]}: neighbours, times'
    for figure, label in figures.items():
        values = [
            result.value(f'holdout_{figure}{end}')
            for end in ('', '_min', '_max')
        ]
        points = figure.startswith('gain')
        cells = [_interval(value, points) for value in values if value]
        if len(cells) == len(values):
            rows.append([label, *cells])
    return rows


def _interval(value: _results.Value, points: bool) -> str:
    """Return a gain in points, or a ratio, with the ends of its interval."""

    def text(one: float) -> str:
        return f'{100 * one:.1f}' if points else f'{one:.3f}'

    found = text(value.value)
    if value.low is not None and value.high is not None:
        found += f' ({value.kind} {text(value.low)} to {text(value.high)})'
    return found.replace('-', '−')


def cell(result: _results.Result, figure: str, field: str) -> str:
    """Return a figure with half of its interval, empty if not measured."""
    value = result.value(figure) if figure in result.figures else None
    if value is None:
        return ''
    scale, digits = 1, _DIGITS.get(field, 1)
    if field in _PERCENT:
        scale = 100
    text = f'{scale * value.value:.{digits}f}'
    if value.low is None or value.high is None:
        return text
    half = scale * (value.high - value.low) / 2
    return f'{text} ± {half:.{digits}f}'
