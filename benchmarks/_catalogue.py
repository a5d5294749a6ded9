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
"""All benchmarks: what they need, what they measure, and their results.

Only the standard library is used, as tools/bench.sh reads this table before it
has an environment. As a script it prints the kind of a benchmark.
"""

import pathlib
import re
import sys
import typing

#: What a benchmark needs: nothing, a real cloud, Java with Maven and the
#: cloud's disks, or a guest of the testbed.
NONE = 'none'
CLOUD = 'cloud'
HADOOP = 'hadoop'
TESTBED = 'testbed'


class Run(typing.NamedTuple):
    """A run of a benchmark whose result is committed.

    ``minutes`` is about what it takes. ``quick`` are the arguments of a run
    that takes ``quick_minutes`` and has other figures; None if there is none.
    """

    arguments: str
    minutes: int
    quick: str | None = None
    quick_minutes: int = 0


class Benchmark(typing.NamedTuple):
    """A benchmark.

    ``code`` are the files and directories of the project that decide what it
    measures, besides its own scripts. ``script`` is set if it is not in
    benchmarks/; such a benchmark is run by hand.
    """

    kind: str
    code: tuple[str, ...]
    runs: dict[str, Run]
    script: str = ''


_DIRECTORY = pathlib.Path(__file__).parent
# These write and read the results, and decide no figure.
_OF_ALL = ('_all', '_catalogue', '_fidelity', '_report', '_results')

_SCHEDULER = ('nova_diskplacer/scheduler', 'nova_diskplacer/mapping')
_SEEKING = 'tools/seeking_disk'
_WEIGHTS = (
    'nova_diskplacer/agent/io_control.py',
    'nova_diskplacer/conf/weights.py',
    'nova_diskplacer/host/cgroups.py',
    'nova_diskplacer/io_weights',
    'nova_diskplacer/monitor',
)

BENCHMARKS = {
    'numa_alignment': Benchmark(
        NONE,
        _SCHEDULER,
        {'numa_alignment': Run('', 3, '--servers 5 --cells 2', 1)},
    ),
    'worker_race': Benchmark(
        NONE, _SCHEDULER, {'worker_race': Run('', 6, '--runs 5', 1)}
    ),
    'exact_claim': Benchmark(
        NONE,
        _SCHEDULER,
        {'exact_claim': Run('', 3, '--rounds 1 --limit 10', 2)},
    ),
    'scheduler_cost': Benchmark(
        NONE, _SCHEDULER, {'scheduler_cost': Run('', 6, '--rounds 2', 2)}
    ),
    'placement_quality': Benchmark(
        NONE,
        (
            'nova_diskplacer/conf/scheduler.py',
            'nova_diskplacer/flavor.py',
            'nova_diskplacer/mapping',
            'nova_diskplacer/scheduler/packing.py',
            'nova_diskplacer/scheduler/plan.py',
            'nova_diskplacer/scheduler/retries.py',
            'nova_diskplacer/scheduler/weigher.py',
        ),
        {'placement_quality': Run('', 60, '--quick', 5)},
    ),
    'block_connection': Benchmark(
        TESTBED,
        ('nova_diskplacer/disks/filesystem',),
        {
            'block_connection': Run('', 20, '--rounds 1 --seconds 1', 2),
            'block_connection-throttled': Run('--throttled --rounds 5', 20),
        },
    ),
    'mapping_throughput': Benchmark(
        CLOUD,
        ('cinder_vdisk_mapper/attach', 'cinder_vdisk_mapper/backend')
        + ('nova_diskplacer/mapping', 'tools/minicloud/capped.py'),
        {'mapping_throughput': Run('--mib 40', 12, '--mib 10', 6)},
    ),
    'hadoop': Benchmark(
        HADOOP,
        (
            'diskplacer_measure/stats.py',
            'nova_diskplacer/disks/filesystem',
            'nova_diskplacer/mapping',
            'tools/minicloud/capped.py',
            'tools/minicloud/seeking.py',
            _SEEKING,
        ),
        {
            'hadoop': Run('', 100),
            'hadoop-seeking': Run('--disk seeking', 60),
        },
    ),
    'server_moves': Benchmark(
        CLOUD,
        (
            'cinder_vdisk_mapper/attach',
            'cinder_vdisk_mapper/moves',
            'cinder_vdisk_mapper/server_moves',
            'nova_diskplacer/disks/remote.py',
        ),
        {'server_moves': Run('', 30)},
    ),
    'background_cost': Benchmark(
        CLOUD,
        (
            'nova_diskplacer/agent/placement_sync.py',
            'nova_diskplacer/agent/provider_traits.py',
            'nova_diskplacer/agent/provider_tree.py',
            'nova_diskplacer/agent/reported_disks.py',
            'nova_diskplacer/placement',
            'nova_diskplacer/report_format.py',
            'nova_diskplacer/reports.py',
            'nova_diskplacer/scheduler/host_disk_cache.py',
            'nova_diskplacer/scheduler/report_listener.py',
        ),
        {'background_cost': Run('', 25, '--seconds 15', 6)},
    ),
    'agent_cost': Benchmark(
        TESTBED,
        (
            'nova_diskplacer/agent/io_loop.py',
            'nova_diskplacer/host/cgroups.py',
            'nova_diskplacer/io_weights',
            'nova_diskplacer/monitor',
        ),
        {
            'agent_cost': Run(
                '--rounds 20 --lasting 300', 30, '--rounds 3 --lasting 20', 6
            )
        },
    ),
    'driver_ops': Benchmark(
        TESTBED,
        (
            'cinder_vdisk_mapper/attach',
            'cinder_vdisk_mapper/backend',
            'cinder_vdisk_mapper/driver.py',
            'cinder_vdisk_mapper/vdisks',
            'nova_diskplacer/disks/filesystem',
            'nova_diskplacer/disks/lvm',
        ),
        {'driver_ops': Run('--quick', 20)},
    ),
    'io_cost_feedback': Benchmark(
        TESTBED,
        ('nova_diskplacer/disks/measure', 'nova_diskplacer/io_weights')
        + (_SEEKING,),
        {'io_cost_feedback': Run('', 28, '--seconds 3', 10)},
    ),
    'elastic': Benchmark(
        TESTBED,
        (
            'cinder_vdisk_mapper/moves',
            'nova_diskplacer/disks/copy_pace.py',
            'nova_diskplacer/disks/lvm',
            'nova_diskplacer/disks/mover.py',
            'nova_diskplacer/elastic',
            'nova_diskplacer/monitor/elastic_status.py',
        ),
        {'elastic': Run('', 35)},
    ),
    'striping': Benchmark(
        TESTBED,
        (
            'diskplacer_measure/stats.py',
            'nova_diskplacer/disks/lvm/stripes.py',
            'nova_diskplacer/guest/stripe.py',
            _SEEKING,
        ),
        {
            'striping': Run(
                '--repetitions 3', 35, '--repetitions 1 --streams 1 4', 8
            ),
            'striping-seeking': Run('--disk seeking --repetitions 3', 35),
        },
    ),
    'contention': Benchmark(
        TESTBED,
        (*_WEIGHTS, _SEEKING)
        + ('tools/testbed/nested-init', 'tools/testbed/nested.py'),
        {
            'contention': Run('--runs 5', 70, '--quick', 8),
            'contention-seeking': Run(
                '--disk seeking --block 512k --controller bfq --runs 5', 50
            ),
            # of what the agent refuses
            'contention-seeking-io-cost': Run(
                '--disk seeking --block 512k --controller io_cost --runs 5', 50
            ),
            # io.cost does the same with each
            **{
                f'contention{disk}-{prefer}': Run(
                    f'{arguments}--part steady --runs 5 --controller bfq '
                    f'--prefer {prefer}',
                    30,
                )
                for disk, arguments in (
                    ('', ''),
                    ('-seeking', '--disk seeking --block 512k '),
                )
                for prefer in ('throughput', 'latency')
            },
            'contention-guests': Run('--guests --controller bfq --runs 5', 30),
            'contention-guests-io-cost': Run(
                '--guests --controller io_cost --runs 5', 30
            ),
        },
    ),
    'project_shares': Benchmark(
        TESTBED,
        (*_WEIGHTS, _SEEKING, 'diskplacer_measure/stats.py'),
        {
            'project_shares': Run('--prefer latency --runs 5', 70),
            'project_shares-seeking': Run(
                '--disk seeking --block 512k --controller bfq '
                '--prefer latency --runs 5',
                40,
            ),
        },
    ),
    'task_sizes': Benchmark(
        TESTBED,
        (*_WEIGHTS, 'tools/testbed/nested-init', 'tools/testbed/nested.py'),
        {
            'task_sizes': Run('--controller bfq --runs 5', 35),
            'task_sizes-io-cost': Run('--controller io_cost --runs 5', 35),
        },
    ),
    'task_throughput': Benchmark(
        TESTBED,
        (*_WEIGHTS, _SEEKING, 'benchmarks/contention.py'),
        {'task_throughput': Run('--controller bfq --runs 5', 20)},
    ),
    'profile_effect': Benchmark(
        TESTBED,
        (
            'diskplacer_measure/stats.py',
            'diskplacer_measure/sweep/measure/worker.sh',
            'nova_diskplacer/profiles',
            _SEEKING,
        ),
        {'profile_effect': Run('--repetitions 3', 45)},
    ),
    'sweep': Benchmark(
        CLOUD,
        (
            'diskplacer_measure/papers',
            'diskplacer_measure/stats.py',
            'diskplacer_measure/sweep',
            'tools/minicloud/capped.py',
            'tools/minicloud/seeking.py',
            _SEEKING,
        ),
        {
            'sweep-seeking': Run(
                '--disk seeking --results sweep-seeking.jsonl -- '
                '--repetitions 3',
                90,
            ),
            'sweep-throttled': Run(
                '--disk throttled --results sweep-throttled.jsonl -- '
                '--repetitions 3',
                90,
            ),
        },
    ),
    'storm': Benchmark(
        CLOUD,
        ('cinder_vdisk_mapper', 'nova_diskplacer', 'tools/storm'),
        {'storm': Run('--long', 150), 'storm-moves': Run('--moves', 120)},
        'tools/storm.sh',
    ),
    'clients': Benchmark(
        CLOUD,
        ('doc/examples/terraform', 'nova_diskplacer/api', 'tools/clients'),
        {'clients': Run('', 40)},
        'tools/clients.sh',
    ),
}


def measured(name: str) -> tuple[str, ...]:
    """Return the paths that decide the figures and goals of a benchmark."""
    one = BENCHMARKS[name]
    return one.code + ((one.script,) if one.script else scripts(name))


def scripts(name: str) -> tuple[str, ...]:
    """Return the script of a benchmark, and what it uses of benchmarks/."""
    found: set[str] = set()
    todo = {f'{name}.py'}
    while todo:
        file = todo.pop()
        found.add(file)
        text = (_DIRECTORY / file).read_text()
        for other in _helpers():
            # modules are named without their ending
            pattern = rf'(?<![\w-]){re.escape(other.removesuffix(".py"))}\b'
            if other not in found and re.search(pattern, text):
                todo.add(other)
    return tuple(sorted(f'benchmarks/{file}' for file in found))


def _helpers() -> list[str]:
    return [
        path.name
        for path in _DIRECTORY.iterdir()
        if path.is_file()
        and (path.name.startswith('_') or path.suffix != '.py')
        and path.stem not in _OF_ALL
    ]


def command(result: str) -> str:
    """Return the command that makes a result, without ``--json FILE``."""
    name = result.partition('-')[0]
    benchmark = BENCHMARKS[name]
    words = [benchmark.script or f'tools/bench.sh {name}']
    return ' '.join(words + [benchmark.runs[result].arguments]).strip()


def main() -> int:
    scripts = {name: one for name, one in BENCHMARKS.items() if not one.script}
    (name,) = sys.argv[1:]
    if name not in scripts:
        print(f'benchmarks/_catalogue.py: no row of {name}', file=sys.stderr)
        return 1
    print(scripts[name].kind)
    return 0


if __name__ == '__main__':
    sys.exit(main())
