#!/usr/bin/env python3
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

"""How much of a fleet is used, by the policy that chooses hosts and disks.

Servers with vdisks come and go, and ``DiskPlan.choose``, the mappings, the
packing and the orders of ``retries`` decide where they go: the product's own
code, without a cloud. The same requests go to copies of the fleet under other
policies, among them scoring rules of other projects. Requests that no host
holds are refused and do not come again.

``today`` is the score before packing and ``default`` the product as it is
configured by default, both beside Nova's weighers for RAM, CPU and disk.
"""

import argparse
import collections
import collections.abc
import dataclasses
import sys
import time
import typing

import numpy as np

import _placement_bounds as bounds
import _placement_figures as figures_
import _placement_fleet as fleets
import _placement_loads as loads
import _placement_policies as policies_
import _placement_race as race
import _placement_simulation as simulation_
import _report
from nova_diskplacer.mapping import base

# Figures are of the time from then on, in mean lifetimes.
_SINCE = 0.5
_SNAPSHOTS = 8

_WORKERS = (1, 2, 8)

# Shares of the disks that static batches ask for.
_BATCHES = (90, 97, 110)

# Scenarios with the LP's bound, and with workers that choose at once.
_BOUNDED = ('load_95', 'load_100')
_RACED = ('load_90', 'large_90')

# A policy that accepts this much less accepts as much.
_AS_MUCH = 0.001


class Size(typing.NamedTuple):
    """How much is simulated.

    ``load_hosts`` are those of the scenarios by load, ``large_hosts`` of the
    large one, ``hosts`` of the others. ``until`` and ``large_until`` are in
    mean lifetimes, ``batch_seconds`` is how long the solver may take for a
    batch, and ``rounds`` how often workers choose at the same time in each
    state.
    """

    seeds: int
    hosts: int
    load_hosts: int
    until: float
    large_hosts: int
    large_until: float
    loads: tuple[int, ...]
    batch_hosts: int
    batch_seconds: float
    rounds: int
    mixes: int


FULL = Size(
    seeds=5,
    hosts=120,
    load_hosts=200,
    until=1.25,
    large_hosts=1000,
    large_until=1.0,
    loads=(40, 60, 70, 80, 90, 95, 100),
    batch_hosts=20,
    batch_seconds=6,
    rounds=12,
    mixes=20,
)
QUICK = FULL._replace(
    seeds=2,
    hosts=40,
    load_hosts=60,
    until=1.0,
    large_hosts=80,
    loads=(60, 90, 95, 100),
    batch_hosts=6,
    batch_seconds=3,
    mixes=5,
)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A fleet and the requests that it gets; ``load`` is in percent."""

    name: str
    shape: fleets.Shape
    mix: loads.Mix
    load: int
    policies: tuple[policies_.Policy, ...]
    until: float
    lifetimes: loads.Lifetimes = loads.usual


class Result(typing.NamedTuple):
    """What became of a scenario with one seed.

    ``hosts`` is the host of each request by policy, (P, N).
    """

    scenario: Scenario
    arrivals: loads.Arrivals
    hosts: base.Ints
    snapshots: list[simulation_.Snapshot]

    def run(self, policy: str) -> figures_.Run:
        """Return the figures of one of the policies."""
        scenario = self.scenario
        names = [one.name for one in scenario.policies]
        return figures_.of_policy(
            scenario.mix,
            scenario.shape,
            self.arrivals,
            self.hosts,
            self.snapshots,
            names.index(policy),
            _SINCE,
        )

    def gb(self, policy: str) -> float:
        """Return the accepted GiB, those of the beginning included."""
        names = [one.name for one in self.scenario.policies]
        accepted = self.hosts[names.index(policy)] != simulation_.REFUSED
        gb = np.array([one.gb for one in self.scenario.mix])
        return float(gb[self.arrivals.kinds[accepted]].sum())


def simulate(scenario: Scenario, seed: int) -> Result:
    """Run a scenario with one seed."""
    until = scenario.until
    rng = np.random.default_rng(seed)
    arrivals = loads.arrivals(
        scenario.mix,
        scenario.shape.capacity_gb,
        scenario.load / 100,
        rng,
        until,
        scenario.lifetimes,
    )
    simulation = simulation_.Simulation(
        scenario.shape, scenario.mix, scenario.policies, rng
    )
    times = np.linspace(_SINCE, until, _SNAPSHOTS, endpoint=False).tolist()
    return Result(scenario, arrivals, *simulation.run(arrivals, times))


def named(*names: str) -> tuple[policies_.Policy, ...]:
    """Return policies by their names."""
    every = {one.name: one for one in policies_.ours() + policies_.PEERS}
    return tuple(every[name] for name in names)


def load_scenarios(size: Size) -> list[Scenario]:
    """Return the scenarios of equal hosts, by load; the last one is large."""
    mix = loads.general()
    every = policies_.ours() + policies_.PEERS
    found = [
        Scenario(
            f'load_{load}',
            fleets.equal(size.load_hosts),
            mix,
            load,
            every,
            size.until,
        )
        for load in size.loads
    ]
    some = named('today', 'default', 'random', 'topolvm', 'best_fit')
    large = fleets.equal(size.large_hosts)
    return [
        *found,
        Scenario('large_90', large, mix, 90, some, size.large_until),
    ]


def other_scenarios(size: Size) -> list[Scenario]:
    """Return the scenarios of other fleets, mixes and lifetimes."""
    policies = named(
        'today', 'default', 'packing', 'random', 'topolvm', 'best_fit'
    )
    equal = fleets.equal(size.hosts)
    general, narrow = loads.general(), loads.narrow()
    media = fleets.media(size.hosts)
    throughput = equal._replace(total_mbps=equal.total_gb * 160 // 3726)
    claiming = loads.claiming_mbps(general, 80)
    scarce_cpu, scarce_ram = (
        fleets.with_scarce(equal, general, 0.85, column, 1.0)
        for column in (0, 1)
    )
    found = [
        Scenario(name, shape, mix, load, policies, size.until)
        for name, shape, mix, load in (
            ('media_80', media, loads.media(), 80),
            ('media_90', media, loads.media(), 90),
            ('unlike_90', fleets.unlike(size.hosts), general, 90),
            ('narrow_90', equal, narrow, 90),
            ('trace_90', equal, general, 90),
            ('mbps_80', throughput, claiming, 80),
            ('cpu_85', scarce_cpu, general, 85),
            ('ram_85', scarce_ram, general, 85),
        )
    ]
    return [
        dataclasses.replace(one, lifetimes=loads.traced)
        if one.name == 'trace_90'
        else one
        for one in found
    ]


def holdout_scenario(number: int, hosts: int, until: float) -> Scenario:
    """Return a scenario that nothing was chosen on."""
    rng = np.random.default_rng([2026, number])
    disks = int(rng.choice((6, 8, 10, 12, 16)))
    disk_gb = int(rng.choice((fleets.TB192, fleets.TB4, fleets.TB8)))
    return Scenario(
        f'mix_{number}',
        fleets.equal(hosts, disks, disk_gb),
        loads.random_mix(rng, disks, disk_gb),
        int(rng.integers(75, 96)),
        named('today', 'default', 'random', 'topolvm', 'best_fit'),
        until,
        loads.traced if rng.random() < 0.25 else loads.usual,
    )


def evaluate(
    results: list[Result], figures: _report.Figures
) -> dict[str, list[figures_.Run]]:
    """Add the figures of a scenario; return the runs of each policy."""
    scenario = results[0].scenario
    runs = {}
    for policy in scenario.policies:
        runs[policy.name] = [result.run(policy.name) for result in results]
        for figure in figures_.Run._fields:
            figures_.add_mean(
                figures,
                f'{scenario.name}_{policy.name}_{figure}',
                [getattr(run, figure) for run in runs[policy.name]],
            )
    figures_.add_ratio(
        figures,
        f'{scenario.name}_neighbours_ratio',
        [run.neighbours for run in runs['default']],
        [run.neighbours for run in runs['today']],
    )
    return runs


def compare(
    name: str,
    runs: dict[str, list[figures_.Run]],
    figures: _report.Figures,
) -> None:
    """Add what the default gains over others, and its neighbours beside them.

    ``gain_over_…`` are GiB, in shares of those requested.
    ``neighbours_to_peer`` is of that peer with the fewest neighbours that
    accepts as much.
    """
    for other in ('today', 'random', 'topolvm', 'best_fit'):
        figures_.add_difference(
            figures,
            f'{name}_gain_over_{other}',
            [run.gib for run in runs['default']],
            [run.gib for run in runs[other]],
        )
    gib = figures_.mean(runs['default'], 'gib')
    peers = [
        one.name
        for one in policies_.PEERS
        if one.name in runs
        and figures_.mean(runs[one.name], 'gib') >= gib - _AS_MUCH
    ]
    if peers:
        fewest = min(
            peers, key=lambda one: figures_.mean(runs[one], 'neighbours')
        )
        figures_.add_ratio(
            figures,
            f'{name}_neighbours_to_peer',
            [run.neighbours for run in runs['default']],
            [run.neighbours for run in runs[fewest]],
        )


def bound_over_time(results: list[Result], figures: _report.Figures) -> None:
    """Add what policies accept of the LP's bound."""
    scenario = results[0].scenario
    most = [
        bounds.over_time(
            scenario.mix, result.arrivals, scenario.shape.capacity_gb
        )
        for result in results
    ]
    for policy in scenario.policies:
        figures_.add_mean(
            figures,
            f'{scenario.name}_{policy.name}_of_lp',
            [
                result.gb(policy.name) / bound
                for result, bound in zip(results, most, strict=True)
            ],
        )


def static_batches(size: Size, figures: _report.Figures) -> None:
    """Add what policies accept of batches, as shares of the MILP's bound."""
    mix, shape = loads.general(), fleets.equal(size.batch_hosts)
    every = policies_.ours() + policies_.PEERS
    for percent in _BATCHES:
        found = collections.defaultdict(list)
        for seed in range(size.seeds):
            rng = np.random.default_rng([seed, percent])
            batch = loads.batch(mix, shape.capacity_gb, percent / 100, rng)
            bound = bounds.of_batch(mix, batch, shape, size.batch_seconds)
            simulation = simulation_.Simulation(shape, mix, every, rng)
            hosts, _ = simulation.run(batch)
            result = Result(
                Scenario('', shape, mix, percent, every, 0.0), batch, hosts, []
            )
            for policy in every:
                found[policy.name].append(result.gb(policy.name) / bound)
        for name, values in found.items():
            figures_.add_mean(
                figures, f'static_{percent}_{name}_of_milp', values
            )


def races(
    results: list[Result], rounds: int, figures: _report.Figures
) -> None:
    """Add the shares of first claims that fail, and the requests lost.

    Lost are requests that some host held when it was chosen, and none when it
    was claimed.
    """
    scenario = results[0].scenario
    names = [one.name for one in scenario.policies]
    for workers in _WORKERS:
        failed = collections.defaultdict(list)
        lost = collections.Counter[str]()
        for seed, result in enumerate(results):
            rng = np.random.default_rng([seed, workers])
            simulation = simulation_.Simulation(
                scenario.shape, scenario.mix, scenario.policies, rng
            )
            total = [race.Count() for _ in names]
            for snapshot in result.snapshots:
                simulation.restore(snapshot)
                counts = race.race(simulation, workers, rounds, rng)
                total = [a + b for a, b in zip(total, counts, strict=True)]
            for name, count in zip(names, total, strict=True):
                share = count.first_failed / max(count.requests, 1)
                failed[name].append(share)
                lost[name] += count.lost
        for name in names:
            figures_.add_mean(
                figures,
                f'{scenario.name}_workers_{workers}_{name}_failed',
                failed[name],
            )
            figures[f'{scenario.name}_workers_{workers}_{name}_lost'] = lost[
                name
            ]


def holdout(
    size: Size, figures: _report.Figures, progress: 'Progress'
) -> None:
    """Add the gains in random mixes: mean with interval, lowest, highest."""
    gains = collections.defaultdict(list)
    ratios = []
    for number in range(size.mixes):
        hosts = max(size.hosts // 2, 24)
        scenario = holdout_scenario(number, hosts, size.until)
        result = simulate(scenario, 1000 + number)
        ours, today = result.run('default'), result.run('today')
        for policy in scenario.policies:
            if policy.name != 'default':
                gain = ours.gib - result.run(policy.name).gib
                gains[policy.name].append(gain)
        ratios.append(ours.neighbours / today.neighbours)
        progress(f'{scenario.name} at {scenario.load} %')
    for name, values in {
        **{f'holdout_gain_over_{name}': gains[name] for name in gains},
        'holdout_neighbours_ratio': ratios,
    }.items():
        figures_.add_mean(figures, name, values)
        figures[f'{name}_min'] = round(min(values), 5)
        figures[f'{name}_max'] = round(max(values), 5)


def extremes(size: Size, figures: _report.Figures) -> None:
    """Add the figures of the goals that are of several scenarios.

    Neighbours are those of all fleets of equal hosts, the large one too.
    """

    def some(names: collections.abc.Iterable[str]) -> list[float]:
        values = (figures.get(name) for name in names)
        return [value for value in values if value is not None]

    scenarios = [f'load_{load}' for load in size.loads if load <= 95]
    scenarios.append('large_90')
    figures['neighbours_ratio_most'] = max(
        some(f'{name}_neighbours_ratio' for name in scenarios)
    )
    figures['neighbours_to_peer_most'] = max(
        some(f'{name}_neighbours_to_peer' for name in scenarios), default=None
    )
    figures['static_of_milp_least'] = min(
        some(f'static_{percent}_default_of_milp' for percent in _BATCHES)
    )
    for other in ('today', 'random', 'topolvm'):
        figures[f'others_gain_over_{other}_least'] = min(
            some(
                f'{scenario.name}_gain_over_{other}'
                for scenario in other_scenarios(size)
            )
        )
    figures['workers_lost'] = sum(
        some(
            f'{name}_workers_{workers}_default_lost'
            for name in _RACED
            for workers in _WORKERS
        )
    )


def goals() -> list[_report.Goal]:
    return [
        _report.Goal(*one)
        for one in (
            ('large_90_default_gib', '>=', 0.99),
            ('large_90_default_widest', '>=', 0.95),
            ('neighbours_ratio_most', '<=', 1.03),
            ('neighbours_to_peer_most', '<=', 1),
            ('load_95_default_of_lp', '>=', 0.97),
            ('load_100_default_of_lp', '>=', 0.95),
            ('static_of_milp_least', '>=', 0.96),
            ('others_gain_over_today_least', '>=', 0),
            ('others_gain_over_random_least', '>=', 0),
            ('others_gain_over_topolvm_least', '>=', 0),
            ('large_90_workers_8_default_failed', '<=', 0.05),
            ('load_90_workers_8_default_failed', '<=', 0.05),
            ('workers_lost', '==', 0),
            ('holdout_gain_over_today_min', '>=', 0),
        )
    ]


class Progress:
    """Tells what is done after how many seconds."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def __call__(self, what: str) -> None:
        seconds = time.monotonic() - self._begun
        print(f'{what}: {seconds:.0f} s', file=sys.stderr, flush=True)


def measure(size: Size) -> _report.Figures:
    """Run all scenarios, the random mixes last."""
    figures: _report.Figures = {}
    progress = Progress()
    for scenario in [*load_scenarios(size), *other_scenarios(size)]:
        results = []
        for seed in range(size.seeds):
            results.append(simulate(scenario, seed))
            progress(f'{scenario.name}, seed {seed}')
        runs = evaluate(results, figures)
        compare(scenario.name, runs, figures)
        show(scenario, figures)
        if scenario.name in _BOUNDED:
            bound_over_time(results, figures)
            progress(f'{scenario.name}, bound')
        if scenario.name in _RACED:
            races(results, size.rounds, figures)
            progress(f'{scenario.name}, workers')
    static_batches(size, figures)
    progress('static batches')
    holdout(size, figures, progress)
    extremes(size, figures)
    return figures


def show(scenario: Scenario, figures: _report.Figures) -> None:
    """Print the figures of a scenario."""
    hosts = len(scenario.shape.total_gb)
    print(f'{scenario.name}: {hosts} hosts, {scenario.load} % offered')
    fields = figures_.Run._fields
    _report.table(
        ('policy', *fields),
        [
            (
                policy.name,
                *(
                    f'{figures[f"{scenario.name}_{policy.name}_{field}"]:.3f}'
                    for field in fields
                ),
            )
            for policy in scenario.policies
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--json', metavar='FILE', help='write the figures')
    parser.add_argument(
        '--quick', action='store_true', help='small fleets, in minutes'
    )
    args = parser.parse_args()
    figures = measure(QUICK if args.quick else FULL)
    _report.show_goals(figures, goals())
    if args.json:
        _report.write(args.json, 'placement_quality', figures, goals())
    return 0


if __name__ == '__main__':
    sys.exit(main())
