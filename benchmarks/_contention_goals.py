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


"""The goals of contention, and figures of its steady server for them.

The pages judge results by them too, which may be older than these goals.
"""

import collections.abc
import re

import _report
from nova_diskplacer.io_weights import turns

# by how many per cent the short tasks are to change, by their number
SMALL = {3: -43.0, 4: -46.0}
LONG = (1, 2)
# per cent: how much later long tasks may end, and how much less all may read
LATER = 2.0
LOST = 0.5

KEPT = 0.9
SLOWER = 2.0
# of the latencies with the agent, divided by those without it
HARM = 1.0
HARM_MOST = 1.05

LATENCIES = ('latency_ms', 'p99_ms')


def goals(
    name: str, figures: _report.Figures, prefer: str = turns.BALANCED
) -> collections.abc.Iterator[_report.Goal]:
    """Yield the goals of a controller.

    Medians count, but for what must not happen in any run: the throughput of
    all at its lowest, and latencies at their highest.
    """
    if f'{name}_task1_s_change' in figures:
        for task, least in SMALL.items():
            yield _report.Goal(f'{name}_task{task}_s_change', '<=', least)
        yield _report.Goal(f'{name}_aggregate_mbps_change_min', '>=', -LOST)
        for task in LONG:
            yield _report.Goal(f'{name}_task{task}_s_change', '<=', LATER)
    steady = f'{name}_steady'
    if f'{steady}_kept' not in figures:
        return
    yield _report.Goal(f'{steady}_kept', '>=', KEPT)
    for figure in LATENCIES:
        yield _report.Goal(f'{steady}_{figure}_ratio', '<=', HARM)
        yield _report.Goal(f'{steady}_{figure}_ratio_max', '<=', HARM_MOST)
    if prefer == turns.LATENCY:
        yield _report.Goal(f'{steady}_slower', '<=', SLOWER)
    else:
        yield _report.Goal(f'{steady}_sum_lost', '<=', turns.ALLOWED[prefer])


def compared(name: str, figures: _report.Figures) -> _report.Figures:
    """Return how the steady server is beside it alone and without the agent.

    :param figures: those of a run.
    """

    def of(what: str) -> float:
        value = figures[f'{name}_{what}']
        assert value is not None
        return value

    found: _report.Figures = {
        'kept': of('steady_with_mbps') / of('steady_alone_mbps'),
        'slower': of('steady_with_latency_ms') / of('steady_alone_latency_ms'),
    }
    for figure in LATENCIES:
        found[f'{figure}_ratio'] = of(f'steady_with_{figure}') / of(
            f'steady_without_{figure}'
        )
    without, with_ = (
        of(f'steady_{arm}_mbps') + of(f'scan_{arm}_mbps')
        for arm in ('without', 'with')
    )
    found['sum_lost'] = 1 - with_ / without
    return {f'{name}_steady_{what}': value for what, value in found.items()}


def judged(
    figures: _report.Figures, command: str
) -> tuple[_report.Figures, tuple[_report.Goal, ...]]:
    """Return the figures of a result with what follows, and today's goals."""
    match = re.search(r'--prefer (\w+)', command)
    prefer = match[1] if match else turns.BALANCED
    found: _report.Figures = {}
    aims: list[_report.Goal] = []
    for name in ('bfq', 'io_cost'):
        if f'{name}_steady_with_mbps' in figures:
            found |= compared(name, figures)
        aims += goals(name, found | figures, prefer)
    return found | figures, tuple(aims)
