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

"""Runs in the guest: four tasks on each of some disks, for contention.

``python _contention_guest.py WHAT JSON``; WHAT is ``prepare``, ``measure``,
``tasks``, ``steady`` (figures as JSON on the last line) or ``agent``, which is
the rounds of the agent alone, until SIGTERM.
"""

import collections.abc
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import typing

from tools.testbed import nested

if typing.TYPE_CHECKING:
    from nova_diskplacer.monitor import status
    from nova_diskplacer.monitor import types

TOP = pathlib.Path('/srv/contention')
CONF = TOP / 'diskplacer.conf'
DISKS = TOP / 'disks'
HIERARCHY = pathlib.Path('/sys/fs/cgroup')
CGROUPS = HIERARCHY / 'contention'
WEIGHTS = ('io.weight', 'io.bfq.weight')
DEFAULT = 100
OPTIONS = """
[diskplacer]
disk_root = {disks}
[diskplacer_agent]
state_dir = {top}/state
[diskplacer_monitor]
cgroups = contention/*/*
[diskplacer_weights]
mode = on
scale_mb = {scale_mb}
prefer = {prefer}
"""

Settings = dict[str, typing.Any]
Homes = dict[str, list[pathlib.Path]]
# Has a task read all of its file, by device and number; returns the seconds.
Read = collections.abc.Callable[[str, int], float]


def run(*argv: str) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f'{argv}: exit {done.returncode}: {done.stdout}')
    return done.stdout


def manage(*argv: str) -> str:
    return run('diskplacer-manage', '--config-file', str(CONF), *argv)


def kernel_name(device: str) -> str:
    return os.path.basename(os.path.realpath(device))


def number(device: str) -> str:
    path = f'/sys/class/block/{kernel_name(device)}/dev'
    return pathlib.Path(path).read_text().strip()


def task_file(uuid: str, task: int) -> pathlib.Path:
    return DISKS / uuid / f'task-{task}'


def prepare(settings: Settings) -> dict[str, str]:
    """Make the devices disks with a file for each task; return UUIDs."""
    TOP.mkdir(parents=True)
    CONF.write_text(
        OPTIONS.format(
            disks=DISKS,
            top=TOP,
            scale_mb=settings['scale_mb'],
            prefer=settings.get('prefer', 'balanced'),
        )
    )
    run('modprobe', 'bfq')
    uuids = {}
    for device, scheduler in settings['schedulers'].items():
        queue = pathlib.Path(f'/sys/block/{kernel_name(device)}/queue')
        (queue / 'scheduler').write_text(scheduler)
        printed = manage(
            'disk', 'prepare', device, '--medium', settings['media'][device],
            '--fstab', str(TOP / 'fstab'), '--mbps', str(settings['mbps']),
            '--format', 'json',
        )  # fmt: skip
        uuid = uuids[device] = json.loads(printed)['uuid']
        for task, size in enumerate(settings['sizes']):
            # what was never written, no disk is asked for
            run(
                'fio', '--name=fill', f'--filename={task_file(uuid, task)}',
                '--rw=write', '--bs=1M', '--direct=1', f'--size={size}',
                '--zero_buffers', '--output=/dev/null',
            )  # fmt: skip
    return uuids


def measure(settings: Settings) -> dict[str, typing.Any]:
    """Measure disks for io.cost; return what was found."""
    printed = manage(
        'disk', 'measure', *settings['uuids'],
        '--size', str(settings['mib']), '--seconds', str(settings['seconds']),
        '--format', 'json',
    )  # fmt: skip
    return json.loads(printed)


def agent(settings: Settings) -> None:
    """Run the I/O control, for the configured cgroups only.

    With ``projects``, they are taken for servers of these, by their numbers.
    """
    from oslo_config import cfg
    from oslo_log import log

    from nova_diskplacer import conf as options
    from nova_diskplacer.agent import io_control
    from nova_diskplacer.disks import discover
    from nova_diskplacer.monitor import consumers

    projects = settings['projects']
    if projects:
        find = consumers.find

        def find_of_projects(
            *args: typing.Any,
        ) -> dict[str, 'types.Consumer']:
            return {
                key: dataclasses.replace(
                    one, project=projects[int(os.path.basename(key))]
                )
                for key, one in find(*args).items()
            }

        consumers.find = find_of_projects
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    conf.register_opt(cfg.StrOpt('host', default='testbed'))
    log.register_options(conf)
    # not where who started it is told
    conf.set_default('use_stderr', True)
    conf([], default_config_files=[str(CONF)])
    log.setup(conf, 'contention')
    disks = list(discover.discover(conf.diskplacer.disk_root))
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    work = io_control.IOControl(conf, list, lambda: disks, dict)
    thread = threading.Thread(target=work.run, args=(stopped,))
    thread.start()
    try:
        # a disk has a state from its second interval on
        while len(weighed(work.current_status())) < len(disks):
            if stopped.wait(0.1):
                return
        print('ready', flush=True)
        stopped.wait()
        seen = work.current_status()
    finally:
        stopped.set()
        thread.join()
    print(
        json.dumps(
            {
                'rounds': seen.rounds,
                'round_cpu_s': seen.total_cpu_seconds / seen.rounds,
                'weight_changes': seen.weight_changes,
            }
        )
    )


def weighed(seen: 'status.Status | None') -> list[str]:
    """Return the disks on which weights do something.

    :raises RuntimeError: there is one where they do nothing.
    """
    if seen is None:
        return []
    refused = [disk.error for disk in seen.disks if not disk.controller]
    if refused or seen.unwatched:
        raise RuntimeError(f'not weighed: {refused} {seen.unwatched}')
    return [disk.uuid for disk in seen.disks]


@contextlib.contextmanager
def agent_running(
    settings: Settings, found: Settings
) -> collections.abc.Iterator[None]:
    """Have the agent work, and end; adds what it tells.

    :raises RuntimeError: it weighs nothing, or ended too early.
    """
    process = subprocess.Popen(
        [
            sys.executable,
            '-W',
            'ignore',
            __file__,
            'agent',
            json.dumps({'projects': settings['projects']}),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != 'ready\n':
                raise RuntimeError('the agent has ended')
            yield
            process.terminate()
            found['agent'] = json.loads(process.stdout.readline())
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise RuntimeError(f'the agent: exit {process.returncode}')


@contextlib.contextmanager
def cgroups(
    devices: collections.abc.Iterable[str], count: int
) -> collections.abc.Iterator[dict[str, list[pathlib.Path]]]:
    """Have so many new cgroups for each device."""
    made: list[pathlib.Path] = []

    def make(path: pathlib.Path) -> pathlib.Path:
        (path.parent / 'cgroup.subtree_control').write_text('+io')
        path.mkdir()
        made.append(path)
        return path

    found = {}
    try:
        make(CGROUPS)
        for device in devices:
            parent = make(CGROUPS / kernel_name(device))
            found[device] = [make(parent / str(one)) for one in range(count)]
        yield found
    finally:
        for path in reversed(made):
            path.rmdir()


def fio(
    path: pathlib.Path, cgroup: pathlib.Path, *arguments: str
) -> typing.Any:
    """Read a file in a cgroup; return what fio tells of that."""
    printed = run(
        'sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(cgroup),
        'fio', '--name=task', f'--filename={path}', '--readonly', '--direct=1',
        # by its own clock fio is wrong by some per cent in the guest
        '--clocksource=clock_gettime', '--output-format=json', *arguments,
    )  # fmt: skip
    return json.loads(printed)['jobs'][0]['read']


def scan(settings: Settings) -> tuple[str, ...]:
    return (
        '--rw=read', f'--bs={settings["block"]}', '--ioengine=libaio',
        f'--iodepth={settings["depth"]}',
    )  # fmt: skip


def rate(settings: Settings) -> tuple[str, ...]:
    """Return what fio is told to read at random places at a steady rate."""
    return (
        '--rw=randread', f'--bs={settings["steady_block"]}',
        '--ioengine=psync', f'--rate={settings["rate"]}',
        '--rate_process=poisson',
    )  # fmt: skip


@contextlib.contextmanager
def fio_readers(
    settings: Settings, homes: Homes
) -> collections.abc.Iterator[Read]:
    """Have fio read.

    The time begins with the first request, not with fio, which takes long to
    start in the guest.
    """

    def read(device: str, task: int) -> float:
        path = task_file(settings['uuids'][device], task)
        found = fio(path, homes[device][task], *scan(settings))
        return float(found['runtime']) / 1000

    yield read


@contextlib.contextmanager
def guest_readers(
    settings: Settings, homes: Homes
) -> collections.abc.Iterator[Read]:
    """Have guests read their vdisks, one for each task."""
    initrd = TOP / 'initrd'
    nested.make_initrd(initrd)
    with contextlib.ExitStack() as stack:
        guests = {
            (device, task): stack.enter_context(
                nested.Guest(
                    home, task_file(settings['uuids'][device], task), initrd
                )
            )
            for device, some in homes.items()
            for task, home in enumerate(some)
        }
        for guest in guests.values():
            guest.wait()

        def read(device: str, task: int) -> float:
            began = time.monotonic()
            guests[device, task].read(settings['sizes'][task])
            return time.monotonic() - began

        yield read


def tasks(settings: Settings) -> list[Settings]:
    """Return of each run how long each task took, and what the agent tells."""
    readers = guest_readers if settings['guests'] else fio_readers
    runs = []
    with (
        cgroups(settings['uuids'], len(settings['sizes'])) as homes,
        readers(settings, homes) as read,
    ):
        for number, agent in enumerate(settings['agents'], 1):
            runs.append(run_tasks(settings, homes, read, agent))
            print(
                f'run {number} of {len(settings["agents"])}, '
                f'{"with" if agent else "without"} the agent: '
                f'{runs[-1]["seconds"]}',
                file=sys.stderr,
                flush=True,
            )
    return runs


def run_tasks(
    settings: Settings, homes: Homes, read: Read, agent: bool
) -> Settings:
    """Return how long each task took, by device, and what the agent tells.

    :raises RuntimeError: the agent has not given back what it changed.
    """
    found: Settings = {}
    count = sum(map(len, homes.values()))
    with running(settings, found, agent):
        began = time.monotonic()

        def do(device: str, task: int) -> float:
            lag = task * settings['lag']
            time.sleep(max(0.0, began + lag - time.monotonic()))
            return read(device, task)

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            futures = {
                device: [
                    pool.submit(do, device, task) for task in range(len(some))
                ]
                for device, some in homes.items()
            }
            found['seconds'] = {
                device: [future.result() for future in some]
                for device, some in futures.items()
            }
    left = {
        str(path): one
        for device, paths in homes.items()
        for path in paths
        if (one := weight(path, number(device))) not in (None, DEFAULT)
    }
    if left:
        raise RuntimeError(f'weights that were left behind: {left}')
    return found


def running(
    settings: Settings, found: Settings, agent: bool
) -> contextlib.AbstractContextManager[None]:
    if not agent:
        return contextlib.nullcontext()
    return agent_running(settings, found)


def steady(settings: Settings) -> dict[str, dict[str, Settings]]:
    """Return what a server gets that reads at random places at a steady rate.

    It is alone, then beside a scan without the agent and with it; by device
    and by which of these.
    """
    uuids = settings['uuids']
    found: dict[str, dict[str, Settings]] = {device: {} for device in uuids}
    with cgroups(uuids, 2) as homes:
        for arm, seconds in settings['seconds'].items():
            limit = ('--time_based', f'--runtime={seconds}')
            with (
                running(settings, {}, arm == 'with'),
                concurrent.futures.ThreadPoolExecutor(2 * len(uuids)) as pool,
            ):
                for device, uuid in uuids.items():
                    home, other = homes[device]
                    ours, theirs = (task_file(uuid, task) for task in (1, 0))
                    found[device][arm] = {
                        'steady': pool.submit(
                            fio, ours, home, *rate(settings), *limit
                        )
                    }
                    if arm != 'alone':
                        found[device][arm]['scan'] = pool.submit(
                            fio, theirs, other, *scan(settings), *limit
                        )
            for device in uuids:
                found[device][arm] = {
                    who: told(future.result())
                    for who, future in found[device][arm].items()
                }
    return found


def told(read: typing.Any) -> dict[str, float]:
    """Return the throughput and the latencies that fio tells."""
    latency = read['clat_ns']
    return {
        'mbps': read['bw_bytes'] / 1e6,
        'latency_ms': latency['mean'] / 1e6,
        'p99_ms': latency['percentile']['99.000000'] / 1e6,
    }


def weight(cgroup: pathlib.Path, device: str) -> int | None:
    """Return the weight of a cgroup on a device, None if it has none."""
    for name in WEIGHTS:
        for line in (cgroup / name).read_text().splitlines():
            if line.startswith(f'{device} '):
                return int(line.split()[1])
    return None


def main() -> None:
    what, settings = sys.argv[1:]
    call = {
        'prepare': prepare,
        'measure': measure,
        'tasks': tasks,
        'steady': steady,
        'agent': agent,
    }[what]
    found = call(json.loads(settings))
    if found is not None:
        print(json.dumps(found))


if __name__ == '__main__':
    main()
