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

"""What a round of the agent costs with hundreds of cgroups active.

Each cgroup is named as libvirt names a server's, and has a process in it that
reads from a loop device, once before each round, and so is seen in it. Each
round is followed by walks of the same processes in /proc, the way of the
authors of Fennel: 81.2 ms for 300 to 500 processes (P4, §IV-A). Measured is
CPU time. One walk is psutil's ``process_iter`` for what the paper lists: user
and process IDs, bytes read and written, time spent waiting. The lean walk
reads the same from two files of each process by itself, with as little Python
as can be. Unlike the walks, a round tells which disk was used, and decides
weights, too. Other processes of this machine are walked as well; the figures
are those of the share of ours.

Then come rounds with cgroups that come and go, to see if memory is flat.

Where this machine has no cgroup v2 with the io controller, all of it runs in a
testbed guest. An emulated processor takes many times as long: the ratios of
rounds to walks hold there, the share of a core does not. So the walks are
repeated on this machine, and the share is divided by how much faster the walk
is which gains less. That is an estimate: nothing here has run such a round.
"""

import argparse
import contextlib
import ctypes
import functools
import gc
import json
import mmap
import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import psutil
from oslo_config import cfg

import _report
from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import io_loop
from nova_diskplacer.agent import slow_checks
from nova_diskplacer.disks import discover
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import consumers
from nova_diskplacer.monitor import history
from nova_diskplacer.monitor import io_stat
from tools.testbed import Testbed

TOP = pathlib.Path(__file__).resolve().parents[1]
BLOCK = 4096
BFQ = 'bfq'
LOOPS = 4
PAPER_MS = 81.2
INTERVAL = 1.0
# seconds between two looks for servers, the agent's default
LOOKS = 2.0
# in which consumers are changed, and how many are active, while memory is
# watched
CHANGE = 20
ACTIVE = 20
# of the testbed guest: for hundreds of processes
GUEST_MEMORY_MIB = 4096
GUEST_TIMEOUT = 4 * 3600
GUEST = """
import argparse, json, sys
import agent_cost
args = argparse.Namespace(**json.loads(sys.argv[1]))
print(json.dumps(agent_cost.run(args)))
"""

SHARE, ESTIMATE = 'core_share', 'core_share_estimate'
CORE = 0.01
GOALS = (
    _report.Goal('accounts_to_psutil_walk', '<=', 0.1),
    _report.Goal('memory_growth_kib', '<=', 256),
    _report.Goal('descriptor_growth', '<=', 0),
)


class Worker:
    """A process in a cgroup that reads a block when it is told to."""

    def __init__(self, cgroup, descriptor, done):
        ours, theirs = os.pipe()[::-1]
        self.pid = os.fork()
        if not self.pid:
            # end with the benchmark, however that ends
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            _read_when_told(theirs, descriptor, done)
        os.close(theirs)
        self._go = ours
        self.cgroup = None
        self.move(cgroup)

    def move(self, cgroup):
        """Have the process in a new cgroup; the one before is removed."""
        before, self.cgroup = self.cgroup, cgroup
        os.makedirs(cgroup)
        with open(f'{cgroup}/cgroup.procs', 'w') as stream:
            stream.write(str(self.pid))
        if before:
            os.rmdir(before)

    def go(self):
        os.write(self._go, b'g')

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._go)
        os.rmdir(self.cgroup)


def _read_when_told(told, descriptor, done):
    block = mmap.mmap(-1, BLOCK)
    while True:
        os.read(told, 1)
        os.preadv(descriptor, [block], 0)
        os.write(done, b'd')


class Host:
    """Servers and disks that are not."""

    def __init__(self, stack, count, devices):
        self._stack = stack
        self.hierarchy = cgroups.hierarchy()
        name = f'diskplacer_bench{os.getpid()}'
        self._home = self.hierarchy.path(f'{name}.partition')
        os.mkdir(self._home)
        stack.callback(os.rmdir, self._home)
        for path in (self.hierarchy.root, self._home):
            with open(f'{path}/cgroup.subtree_control', 'w') as stream:
                stream.write('+io')
        paths = [os.path.realpath(path) for path in devices]
        loops = [] if paths else [self._loop() for _ in range(LOOPS)]
        paths += loops
        for path in paths:
            self._schedule(os.path.basename(path))
        self.disks = [
            discover.Disk(
                f'disk{index}', '', path, '', '', None, 0, 0, 0, 0, 'ok', ()
            )
            for index, path in enumerate(paths)
        ]
        self._xml = f'<domain><partition>/{name}</partition></domain>'
        self._numbers = list(range(1, count + 1))
        self._done, done = os.pipe()
        descriptors = [
            os.open(path, os.O_RDONLY | os.O_DIRECT) for path in paths
        ]
        for path in loops:
            # goes when the last process has closed it
            subprocess.run(['losetup', '--detach', path], check=True)
        self.workers = []
        for index in range(count):
            worker = Worker(
                self._cgroup(index), descriptors[index % len(paths)], done
            )
            stack.callback(worker.end)
            self.workers.append(worker)
        self.servers = [self._server(index) for index in range(count)]

    def _loop(self):
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(1 << 20)
            return subprocess.run(
                ['losetup', '--find', '--show', file.name],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()

    def _schedule(self, name):
        """Have weights be decided on for a device."""
        before = block_queue.read(name).values['scheduler']
        if before != BFQ:
            block_queue.write(name, 'scheduler', BFQ)
            self._stack.callback(block_queue.write, name, 'scheduler', before)

    def _cgroup(self, index):
        number = self._numbers[index]
        return f'{self._home}/qemu-{number}-bench{index}.libvirt-qemu'

    def _server(self, index):
        return libvirt_servers.Server(
            uuid=f'server{index:04}',
            name=f'bench{index}',
            extra_specs={},
            vdisks=(),
            caches={},
            running=True,
            pinned_by_nova=False,
            xml=self._xml,
            domain_id=self._numbers[index],
            project=f'project{index % 50}',
        )

    def start_again(self, index):
        """Have a server in a new cgroup, as after a hard reboot."""
        self._numbers[index] = max(self._numbers) + 1
        self.workers[index].move(self._cgroup(index))
        servers = list(self.servers)
        servers[index] = self._server(index)
        self.servers = servers

    def act(self, workers):
        """Have these workers' cgroups be active."""
        for worker in workers:
            worker.go()
        left = len(workers)
        while left:
            left -= len(os.read(self._done, left))


def walk_psutil():
    """Return how many processes there are, having asked psutil of all."""
    return len(
        [
            process.info
            for process in psutil.process_iter(
                ['pid', 'uids', 'io_counters', 'cpu_times']
            )
        ]
    )


def walk_lean():
    """Return how many processes there are, having read of all."""
    found = []
    for name in os.listdir('/proc'):
        if not name.isdigit():
            continue
        try:
            user = os.stat(f'/proc/{name}').st_uid
            io = _read(f'/proc/{name}/io').split()
            # after the name in brackets: what waited is the 42nd field
            status = _read(f'/proc/{name}/stat').rpartition(b')')[2].split()
        except OSError:
            continue
        found.append(
            (int(name), user, int(io[9]), int(io[11]), int(status[39]))
        )
    return len(found)


WALKS = {'psutil': walk_psutil, 'lean': walk_lean}


def _read(path):
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4096)
    finally:
        os.close(file)


def cost(work):
    """Return the milliseconds of CPU that a function took, and its result."""
    began = time.process_time()
    result = work()
    return 1000 * (time.process_time() - began), result


def configured(state_dir):
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    conf.register_opt(cfg.StrOpt('host', default='bench'))
    conf([], default_config_files=[])
    conf.set_override('state_dir', state_dir, 'diskplacer_agent')
    conf.set_override('mode', 'dry_run', 'diskplacer_weights')
    return conf


def memory_kib():
    return psutil.Process().memory_info().rss // 1024


def descriptors():
    return len(os.listdir('/proc/self/fd'))


def measure(host, agent, count):
    """Return the costs in ms of each kind, a figure for each round."""
    devices = {
        disk.uuid: Device(
            disk.uuid,
            os.path.basename(disk.device),
            _number(disk.device),
            False,
        )
        for disk in host.disks
    }
    reader = io_stat.CgroupReader(host.hierarchy)
    find = functools.partial(consumers.find, host.servers, [], host.hierarchy)
    found = find().values()
    known = history.History()

    def monitor():
        return known.update(INTERVAL, reader.read(found, devices))

    kinds = {
        'accounts': monitor,
        'round': agent.run_once,
        'find': find,
        **WALKS,
    }
    costs = {kind: [] for kind in kinds}
    agent.run_once()
    for _ in kinds:
        host.act(host.workers)
    agent.run_once()
    monitor()
    for _ in range(count):
        for kind, work in kinds.items():
            # also so that each begins with caches as cold as the others
            host.act(host.workers)
            spent, result = cost(work)
            if kind == 'accounts':
                times = len(kinds) if costs[kind] else 1
                check(result, len(host.workers), times)
            elif kind in WALKS:
                spent *= len(host.workers) / result
            costs[kind].append(spent)
    return costs


def check(seen, count, times):
    """Fail unless every consumer was seen to have read so many times."""
    rows = seen[:, 0] == times * BLOCK
    if len(rows) != count or not rows.all():
        raise RuntimeError(
            f'{rows.sum()} of {len(rows)} pairs were seen right, '
            f'there are {count}'
        )


def _number(device):
    status = os.stat(device).st_rdev
    return f'{os.major(status)}:{os.minor(status)}'


def endure(host, agent, count):
    """Return the growth of memory in KiB and of descriptors in rounds.

    From a tenth of the rounds on, all lists having their size then.
    """
    first = 0, 0
    for number in range(count):
        if number == count // 10:
            gc.collect()
            first = memory_kib(), descriptors()
        if number % CHANGE == 0:
            host.start_again(number // CHANGE % len(host.workers))
        begin = number * ACTIVE % len(host.workers)
        host.act(host.workers[begin : begin + ACTIVE])
        agent.run_once()
    for _ in range(3):
        host.act(host.workers)
        agent.run_once()
    seen = len({server for server, _ in agent.interval.sample.pairs})
    if seen != len(host.servers):
        raise RuntimeError(f'{seen} of {len(host.servers)} servers are seen')
    gc.collect()
    return memory_kib() - first[0], descriptors() - first[1]


def walks_here(processes, rounds):
    """Return the median costs in ms of the walks on this machine.

    :param processes: of how many processes, which do nothing.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(processes):
            process = subprocess.Popen(['sleep', 'infinity'])
            stack.callback(process.wait)
            stack.callback(process.kill)
        costs = {kind: [] for kind in WALKS}
        for _ in range(rounds):
            for kind, walk in WALKS.items():
                spent, found = cost(walk)
                costs[kind].append(spent * processes / found)
    return {kind: statistics.median(costs[kind]) for kind in WALKS}


def in_guest(args):
    """Return the figures of a testbed guest, and the estimate from them."""

    def say(name, text):
        if name == 'err':
            sys.stderr.write(text)

    with Testbed(memory_mib=GUEST_MEMORY_MIB) as bed:
        print(f'In a testbed guest, by {bed.accel}:', flush=True)
        devices = [bed.device(index) for index in range(len(bed.disks))]
        settings = json.dumps({**vars(args), 'device': devices})
        *printed, figures = bed.run(
            'python', '-W', 'ignore', '-c', GUEST, settings,
            env={'PYTHONPATH': f'{TOP}:{TOP}/benchmarks'},
            timeout=GUEST_TIMEOUT,
            say=say,
        ).out.splitlines()  # fmt: skip
        print('\n'.join(printed))
    figures = json.loads(figures)
    here = walks_here(args.cgroups, args.rounds)
    figures |= {f'{kind}_here_ms': here[kind] for kind in here}
    figures['guest_slowdown'] = min(
        figures[f'{kind}_ms'] / here[kind] for kind in here
    )
    figures[ESTIMATE] = figures[SHARE] / figures['guest_slowdown']
    print(
        'The walks on this machine: '
        + ', '.join(f'{kind} {here[kind]:.2f} ms' for kind in here)
    )
    return figures


def run(args):
    """Measure everything where this runs; return the figures."""
    # a pipe to each worker, beside what the agent opens
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        state = stack.enter_context(tempfile.TemporaryDirectory())
        gc.freeze()
        host = Host(stack, args.cgroups, args.device)
        conf = configured(state)
        agent = io_loop.IOLoop(
            conf,
            lambda: host.servers,
            lambda: host.disks,
            slow_checks.SlowChecks(conf),
        )
        costs = measure(host, agent, args.rounds)
        growth, leaked = endure(host, agent, args.lasting)
    print(
        f'{args.cgroups} active cgroups, {len(host.disks)} disks; CPU time '
        f'of {args.rounds} rounds'
    )
    medians = {kind: statistics.median(costs[kind]) for kind in costs}
    names = {
        'accounts': 'accounts and history',
        'round': 'round, with decisions',
        'find': 'servers found anew',
        'psutil': '/proc walk, psutil',
        'lean': '/proc walk, lean',
    }
    _report.table(
        ('', 'median, ms', 'least', 'most', 'to psutil', 'to lean'),
        [
            (
                name,
                f'{medians[kind]:.2f}',
                f'{min(costs[kind]):.2f}',
                f'{max(costs[kind]):.2f}',
                f'{medians[kind] / medians["psutil"]:.3f}',
                f'{medians[kind] / medians["lean"]:.3f}',
            )
            for kind, name in names.items()
        ],
    )
    print(f'the daemon of the paper: {PAPER_MS} ms')
    figures = {f'{kind}_ms': medians[kind] for kind in costs}
    figures |= {f'{kind}_ms_min': min(costs[kind]) for kind in costs}
    figures |= {f'{kind}_ms_max': max(costs[kind]) for kind in costs}
    figures |= {
        'accounts_to_psutil_walk': medians['accounts'] / medians['psutil'],
        'accounts_to_lean_walk': medians['accounts'] / medians['lean'],
        'round_to_psutil_walk': medians['round'] / medians['psutil'],
        SHARE: (medians['round'] / INTERVAL + medians['find'] / LOOKS) / 1000,
        'memory_growth_kib': growth,
        'descriptor_growth': leaked,
    }
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--json', metavar='FILE', help='write figures here')
    parser.add_argument('--cgroups', type=int, default=500)
    parser.add_argument(
        '--device',
        action='append',
        default=[],
        help='a disk to read from, again for each; loop devices by default',
    )
    parser.add_argument('--rounds', type=int, default=50)
    parser.add_argument(
        '--lasting', type=int, default=10000, help='rounds to watch memory in'
    )
    args = parser.parse_args()
    if os.geteuid():
        parser.error('cgroups and loop devices take root')

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        cgroups.hierarchy()
    except exception.ContentionError as error:
        if args.device:
            parser.error(f'--device: {error}')
        figures, share = in_guest(args), ESTIMATE
    else:
        figures, share = run(args), SHARE
    goals = (*GOALS, _report.Goal(share, '<=', CORE))
    _report.show_goals(figures, goals)
    if args.json:
        _report.write(args.json, 'agent_cost', figures, goals)
    return 0


if __name__ == '__main__':
    sys.exit(main())
