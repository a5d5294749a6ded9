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


"""The outcome of a storm, as text and in the form of benchmarks' results."""

import collections
import collections.abc
import dataclasses
import datetime
import shlex
import statistics
import typing

from tools import provenance
from tools.storm import invariants
from tools.storm import kills
from tools.storm import load
from tools.storm import plan
from tools.storm.invariants import Violation
from tools.storm.plan import Done

#: What a storm measures.
MEASURED = (
    'cinder_vdisk_mapper',
    'nova_diskplacer',
    'tools/storm',
    'tools/storm.sh',
)


@dataclasses.dataclass
class Outcome:
    """What happened: ``vdisks`` is how many comparisons of vdisks there were.

    ``repairs`` are the kinds that audits have repaired, ``findings`` those
    that they had in the end; ``growth`` are the MiB of each service of one
    run, first and last.
    """

    seed: int
    seconds: int
    command: collections.abc.Sequence[str]
    operations: load.Counts
    failures: list[str]
    faults: list[Done]
    skipped: list[str]
    commands: list[str]
    violations: list[Violation]
    vdisks: int = 0
    repairs: collections.Counter[str] = dataclasses.field(
        default_factory=collections.Counter
    )
    growth: dict[str, tuple[float, float]] = dataclasses.field(
        default_factory=dict
    )

    @property
    def own(self) -> list[Violation]:
        """Violations of the project's own."""
        return [
            one for one in self.violations if one.owner == invariants.PROJECT
        ]

    @property
    def apart(self) -> list[Violation]:
        return [
            one for one in self.violations if one.owner != invariants.PROJECT
        ]


def recoveries(faults: list[Done]) -> dict[str, list[float]]:
    """Return the seconds of the recoveries, by kind and service, sorted."""
    found: dict[str, list[float]] = collections.defaultdict(list)
    for done in faults:
        if done.recovered is not None:
            found[done.fault.name].append(done.recovered)
    return {name: sorted(seconds) for name, seconds in sorted(found.items())}


def figures(outcome: Outcome) -> dict[str, float | None]:
    """Return the figures, named as those of benchmarks are.

    Of recoveries there are the median, the shortest and the longest, in
    seconds.
    """
    counts: collections.Counter[str] = collections.Counter()
    by_name: dict[str, float | None] = {}
    for name, found in sorted(outcome.operations.items()):
        counts += found
        key = _key(name)
        by_name[key] = found.total()
        by_name[f'{key}_ok'] = found[load.OK]
    kinds = collections.Counter(done.fault.kind for done in outcome.faults)
    result: dict[str, float | None] = {
        'seconds': outcome.seconds,
        'operations': counts.total(),
        **{f'operations_{_key(kind)}': counts[kind] for kind in load.OUTCOMES},
        **by_name,
        'faults': len(outcome.faults),
        **{f'faults_{_key(kind)}': n for kind, n in sorted(kinds.items())},
        'vdisks_compared': outcome.vdisks,
        'bytes_wrong': _count(outcome.own, 'bytes'),
        'repairs': outcome.repairs.total(),
        'violations': len(outcome.own),
        'violations_apart': len(outcome.apart),
    }
    for name in plan.service_faults():
        # a short storm has not all of them
        result[f'{_key(name)}_s'] = None
    for name, seconds in recoveries(outcome.faults).items():
        key = f'{_key(name)}_s'
        result[key] = statistics.median(seconds)
        result[f'{key}_min'], result[f'{key}_max'] = seconds[0], seconds[-1]
    for name, (first, last) in sorted(outcome.growth.items()):
        result[f'{_key(name)}_growth_mib'] = round(last - first, 1)
    return result


def _key(name: str) -> str:
    return name.lower().replace('-', '_').replace(' ', '_').replace('@', '_')


def _count(violations: list[Violation], rule: str) -> int:
    return sum(one.rule == rule for one in violations)


def content(outcome: Outcome) -> dict[str, typing.Any]:
    """Return what ``--json`` writes."""
    return {
        **_head('storm', outcome.command),
        'seed': outcome.seed,
        **_figures_and_goals(figures(outcome)),
        'violations': [dataclasses.asdict(one) for one in outcome.own],
        'apart': [dataclasses.asdict(one) for one in outcome.apart],
        'repairs': dict(outcome.repairs),
        'faults': [
            {
                'kind': done.fault.kind,
                'target': done.fault.target,
                'disks': list(done.fault.disks),
                'seconds': done.fault.seconds,
                'begun': done.begun,
                'recovered': done.recovered,
            }
            for done in outcome.faults
        ],
        'skipped': outcome.skipped,
        'commands': outcome.commands,
        'failures': outcome.failures,
    }


def content_of_kills(
    ended: collections.abc.Sequence[kills.Ended],
    words: collections.abc.Iterable[str],
) -> dict[str, typing.Any]:
    """Return what ``--json`` writes of kills while servers move.

    :param words: of ``--moves``.
    """
    phases = dict.fromkeys(one.kill.phase for one in ended)
    figures: dict[str, float | None] = {'kills_known': len(kills.ALL)}
    figures |= _figures_of_kills('', ended)
    for phase in phases:
        figures |= _figures_of_kills(
            f'{phase}_', [one for one in ended if one.kill.phase == phase]
        )
    return {
        **_head('storm', ['--moves', *words]),
        **_figures_and_goals(figures),
        'ended': [
            {
                'kill': one.kill.name,
                'server_at': one.host,
                'seconds': one.seconds,
                'means': list(one.means),
                'guest_crashes': one.crashes,
                'violations': list(one.violations),
            }
            for one in ended
        ],
    }


def _figures_of_kills(
    prefix: str, ended: collections.abc.Sequence[kills.Ended]
) -> dict[str, float | None]:
    """Return the figures of some kills; the times are in seconds."""
    seconds = [one.seconds for one in ended]
    operated = [one for one in ended if one.means and not one.violations]
    violating = [one for one in ended if one.violations]
    return {
        f'{prefix}kills': len(ended),
        f'{prefix}by_itself': len(ended) - len(operated) - len(violating),
        f'{prefix}by_an_operator': len(operated),
        f'{prefix}violations': len(violating),
        f'{prefix}guest_crashes': sum(one.crashes for one in ended),
        f'{prefix}seconds_min': min(seconds),
        f'{prefix}seconds_max': max(seconds),
    }


def _head(
    benchmark: str, words: collections.abc.Sequence[str]
) -> dict[str, typing.Any]:
    return {
        'benchmark': benchmark,
        'date': datetime.date.today().isoformat(),
        'command': shlex.join(['tools/storm.sh', *words]),
        **provenance.record(MEASURED),
    }


def _figures_and_goals(
    figures: dict[str, float | None],
) -> dict[str, typing.Any]:
    return {
        'figures': figures,
        'goals': [
            {
                'figure': 'violations',
                'op': '==',
                'value': 0,
                'met': figures['violations'] == 0,
            }
        ],
    }


def lines(outcome: Outcome) -> collections.abc.Iterator[str]:
    """Yield the outcome in words."""
    yield 'Operations (ok of all, and how the others ended):'
    for name, counts in sorted(outcome.operations.items()):
        others = ', '.join(
            f'{counts[kind]} {kind}'
            for kind in load.OUTCOMES[1:]
            if counts[kind]
        )
        yield f'  {name:16} {counts[load.OK]}/{counts.total()} {others}'
    kinds = collections.Counter(done.fault.name for done in outcome.faults)
    yield f'Faults: {kinds.total()}'
    times = recoveries(outcome.faults)
    for name, count in sorted(kinds.items()):
        seconds = times.get(name)
        took = (
            f', recovered in {statistics.median(seconds):.0f} s, at most '
            f'{seconds[-1]:.0f} s'
            if seconds
            else ''
        )
        yield f'  {name:24} {count}{took}'
    yield f'VDisks compared: {outcome.vdisks}'
    repairs = ', '.join(
        f'{count} {kind}' for kind, count in sorted(outcome.repairs.items())
    )
    yield f'Repaired by audits: {repairs or "nothing"}'
    for title, found in (
        ("Told apart, as Nova's, Cinder's or users'", outcome.apart),
        ('Violations', outcome.own),
    ):
        yield f'{title}: {len(found)}'
        for one in found:
            reason = f' ({one.reason})' if one.reason else ''
            yield f'  {one.rule}: {one.subject} {one.what}{reason}'
    yield f'{len(outcome.own)} violations, seed {outcome.seed}'
