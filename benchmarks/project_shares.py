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

"""What projects with several servers get on a shared disk.

One project has up to four servers on a disk, another one a heavy server, which
reads in sequence. The disks are those of contention, and the agent does its
rounds. Each scene is compared with another one of the same run:

whole    the project has one heavy server beside the other's
divided  it has four heavy servers: all of them together should get no more
lights   it has four light servers, which read 3 MB/s each at random places,
         beside the other's heavy one: their latencies, beside those of the
         four alone and without the agent
own      it has a light server and three heavy ones, and the other project has
         none: the latency of the light one, beside it alone
"""

import argparse
import signal
import sys
import typing

import _contention_setup as setup
import _in_guest
import _report
from diskplacer_measure import stats
from nova_diskplacer.io_weights import turns

GUEST = '_project_shares_guest.py'
SERVERS = 4
PROJECTS = ['divided'] * SERVERS + ['other']
SIZES_MB = (1000,) * len(PROJECTS)
LIGHT, HEAVY = 'light', 'heavy'
ARMS = ('without', 'with')

# How much more of the disk a project may get with four servers; what shares
# differ by from one time to the next.
GAIN = 1.05
# Of the slowest of four light servers, with the agent divided by without it.
HARM = 1.0
# Of a light server of a heavy project, with latency, divided by that alone.
SLOWER = 2.0


class Scene(typing.NamedTuple):
    """Loads of the servers by their numbers, for so many seconds.

    ``ramp`` are the seconds before, of which nothing counts.
    """

    loads: tuple[str | None, ...]
    agent: bool
    seconds: int
    ramp: int = 0


ALONE = (LIGHT, None, None, None, None)
LIGHTS = (LIGHT,) * SERVERS
SCENES = {
    'alone': Scene(ALONE, False, 20),
    'lights_alone': Scene((*LIGHTS, None), False, 20),
    'lights_without': Scene((*LIGHTS, HEAVY), False, 20),
    'lights_with': Scene((*LIGHTS, HEAVY), True, 45, 30),
    'own_without': Scene((LIGHT, HEAVY, HEAVY, HEAVY, None), False, 20),
    'own_with': Scene((LIGHT, HEAVY, HEAVY, HEAVY, None), True, 45, 30),
    'whole': Scene((HEAVY, None, None, None, HEAVY), True, 30, 20),
    'divided': Scene((HEAVY,) * len(PROJECTS), True, 30, 20),
}

# What the servers of a scene get, None for one without a load.
Told = list[dict[str, float] | None]


def throughput(servers: Told) -> float:
    """Return the MB/s of all servers."""
    return sum(one['mbps'] for one in servers if one)


def share(servers: Told) -> float:
    """Return the part of all throughput that the divided project gets."""
    return throughput(servers[:SERVERS]) / throughput(servers)


def figures_of(scenes: typing.Mapping[str, Told]) -> dict[str, float]:
    """Return the figures of a run on a disk."""

    def latency(scene: str, server: int) -> float:
        told = scenes[scene][server]
        assert told is not None
        return told['latency_ms']

    def slower(scene: str, alone: str, servers: range) -> float:
        return max(
            latency(scene, server) / latency(alone, server)
            for server in servers
        )

    found = {
        f'{scene}_share': share(scenes[scene])
        for scene in ('whole', 'divided')
    }
    found['gain'] = share(scenes['divided']) / share(scenes['whole'])
    for arm in ARMS:
        found[f'lights_{arm}_slower'] = slower(
            f'lights_{arm}', 'lights_alone', range(SERVERS)
        )
        found[f'own_{arm}_slower'] = slower(f'own_{arm}', 'alone', range(1))
        found[f'lights_{arm}_latency_ms'] = max(
            latency(f'lights_{arm}', server) for server in range(SERVERS)
        )
        found[f'own_{arm}_latency_ms'] = latency(f'own_{arm}', 0)
    for scene in ('lights', 'own'):
        found[f'{scene}_harm'] = (
            found[f'{scene}_with_latency_ms']
            / found[f'{scene}_without_latency_ms']
        )
        without, with_ = (throughput(scenes[f'{scene}_{arm}']) for arm in ARMS)
        found[f'{scene}_sum_lost'] = 1 - with_ / without
    return found


def evaluate(
    name: str, runs: typing.Sequence[dict[str, float]]
) -> _report.Figures:
    """Return medians, with the lowest and the highest of the runs."""
    found: _report.Figures = {}
    for figure in runs[0]:
        spread = stats.spread([one[figure] for one in runs])
        found[f'{name}_{figure}'] = spread.median
        found[f'{name}_{figure}_min'] = spread.low
        found[f'{name}_{figure}_max'] = spread.high
    return found


def goals(name: str, prefer: str) -> list[_report.Goal]:
    """Return the goals of a controller."""
    found = [
        _report.Goal(f'{name}_gain', '<=', GAIN),
        _report.Goal(f'{name}_lights_harm', '<=', HARM),
        _report.Goal(f'{name}_own_harm', '<=', HARM),
    ]
    if prefer == turns.LATENCY:
        found.append(_report.Goal(f'{name}_own_with_slower', '<=', SLOWER))
    return found


def measure(
    args: argparse.Namespace, disks: setup.Disks
) -> dict[str, list[dict[str, float]]]:
    """Return the figures of each run, by controller."""
    found: dict[str, list[dict[str, float]]] = {
        name: [] for name in disks.names
    }
    with disks.prepared() as bed:
        # one disk after the other: a guest without processors to spare has
        # disks that are idle at times, which the agent takes for a light load
        for name in disks.names:
            for run in range(args.runs):
                setup.progress(f'{name}: run {run + 1}')
                # a machine that changes does not favour one scene
                scenes = list(SCENES.items())[:: 1 - 2 * (run % 2)]
                got = _in_guest.run(
                    bed,
                    GUEST,
                    **disks.settings([name]),
                    projects=PROJECTS,
                    scenes={name: one._asdict() for name, one in scenes},
                )
                figures = figures_of(got[disks.devices[name]])
                found[name].append(figures)
                setup.progress(f'{name}: {figures}')
    return found


def show(name: str, figures: _report.Figures) -> None:
    """Print what the project gets on a disk."""

    def text(figure: str) -> str:
        median, low, high = (
            figures[f'{name}_{figure}{end}'] for end in ('', '_min', '_max')
        )
        return f'{median:.2f} ({low:.2f} to {high:.2f})'

    print(f'{name} ({setup.SCHEDULERS[name]}): median (lowest to highest)')
    _report.table(
        ('', 'Without the agent', 'With'),
        [
            ('Share of one heavy server', '', text('whole_share')),
            ('Share of four', '', text('divided_share')),
            *(
                (title, *(text(f'{scene}_{arm}_slower') for arm in ARMS))
                for title, scene in (
                    ('Slowest of four light servers, times alone', 'lights'),
                    ('A light one beside three of its project', 'own'),
                )
            ),
        ],
    )


def main() -> int:
    # an exit ends the guest and whatever waits for it
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    setup.add_arguments(parser)
    parser.add_argument(
        '--runs', type=int, default=5, help='how often (default: %(default)s)'
    )
    args = parser.parse_args()
    disks = setup.Disks(args, SIZES_MB)
    figures: _report.Figures = {}
    aims: list[_report.Goal] = []
    for name, runs in measure(args, disks).items():
        figures |= evaluate(name, runs)
        show(name, figures)
        aims += goals(name, args.prefer)
    _report.show_goals(figures, aims)
    if args.json:
        _report.write(args.json, 'project_shares', figures, aims)
    return 0


if __name__ == '__main__':
    sys.exit(main())
