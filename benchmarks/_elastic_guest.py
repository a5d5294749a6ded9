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

"""Runs in the guest: an elastic vdisk under pressure and in quiet.

``python _elastic_guest.py JSON`` prints what was measured as JSON on its last
line. Times are in seconds since the first phase began.
"""

import collections
import collections.abc
import contextlib
import functools
import json
import pathlib
import sys
import threading
import time

from oslo_config import cfg
from oslo_log import log

import _contention_guest as guest
import _elastic_loads as loads_
import _striping_layouts as layouts
from cinder_vdisk_mapper.moves import leg_steps
from nova_diskplacer import conf as options
from nova_diskplacer.agent import io_control
from nova_diskplacer.disks import copy_pace
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import mover as mover_
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.elastic.processes import executor
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import elastic_status

TOP = pathlib.Path('/srv/elastic')
ROOT = TOP / 'disks'
NAME, STRIPE, NEIGHBOUR = 'volume-elastic', 'volume-stripe', 'volume-other'
VOLUMES = {NAME: '1', STRIPE: '2', NEIGHBOUR: '3'}
MIB = 1 << 20
NEIGHBOUR_SIZE = 256 * MIB
# GiB that Placement has left on each disk: enough.
ROOM_GB = 64
# Seconds between two searches for what is on the disks, as the agent's.
DISCOVER_S = 2.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Mover(mover_.Mover):
    """Moves legs as ``cinder_vdisk_mapper.moves.leg_mover``, without Cinder.

    What that keeps in Cinder's database is ``location``, and nothing is
    claimed in Placement. All that touches disks is the same.
    """

    def __init__(
        self,
        location: Location,
        size: int,
        origin: float,
        wanted: collections.abc.Callable[[], elastic_status.WantedStep | None],
    ) -> None:
        self.location = location
        self.steps: list[guest.Settings] = []
        self.size, self._origin, self._wanted = size, origin, wanted

    def move(
        self,
        volume_id: str,
        location: Location,
        progress: mover_.Progress,
        stopped: mover_.IsStopped,
        percent: int,
    ) -> None:
        step = self._wanted()
        told: guest.Settings = {
            'begin': time.time() - self._origin,
            'asked': step.asked if step else 0.0,
            'old': self.location,
            'new': location,
            'failed': '',
        }
        self.steps.append(told)
        try:
            move = Steps(self, location, percent)

            def look(done: int, total: int) -> None:
                seen = time.time() - self._origin, done
                told['looks'] = told.get('looks', [seen])[:1] + [seen]
                progress(done, total)

            leg_steps.run(move, look, stopped)
        except Exception as error:
            told['failed'] = str(error) or type(error).__name__
            raise
        finally:
            told['end'] = time.time() - self._origin
            say(f'step: {told}')

    def recover(self) -> None:
        """Do nothing: no step of this guest was interrupted."""


class Steps(leg_steps.LegSteps):
    """The steps of a move of the vdisk of a mover."""

    def __init__(self, mover: Mover, new: Location, percent: int) -> None:
        self._mover, self._size = mover, mover.size
        self._old, self._new, self._percent = mover.location, new, percent
        self._step = self._old.step_to(new)
        disks = [
            groups.require(one).identity
            for one in (self._step.source, self._step.target)
        ]
        self._pace = copy_pace.Pace(
            percent, copy_pace.step_mbps(percent / 100, disks)
        )

    def is_decided(self) -> bool:
        return self._mover.location == self._new

    def begin(self) -> None:
        move = self._old, NAME, self._new
        leg_moves.create_legs(*move)
        leg_moves.begin_move(*move, self._size, self._percent)

    def copied(self) -> tuple[int, int]:
        return leg_moves.move_progress(self._old, NAME, self._new)

    def pace(self, done: int) -> None:
        resync_throttle.limit_copies(self._pace.after(done, time.monotonic()))

    def decide(self) -> None:
        leg_moves.complete_legs(self._old, NAME, self._new)
        self._mover.location = self._new

    def finish(self) -> None:
        leg_moves.end_move(self._new, NAME, self._size)
        leg_moves.settle_legs(self._new, NAME, self._old, False)
        _delete_moving(self._step.source)
        resync_throttle.release_throttle()

    def undo(self) -> None:
        leg_moves.end_move(self._old, NAME, self._size)
        _delete_moving(self._step.target)
        resync_throttle.release_throttle()


def _delete_moving(uuid: str) -> None:
    for leg in leg_moves.moving_legs(uuid, NAME):
        volumes.mark_deleted(uuid, leg)
        volumes.zero(uuid, leg)
    leg_moves.remove_legs(uuid, NAME, wiped=True)


def prepared(device: str, mbps: int) -> str:
    """Make a device an LVM disk, and return its UUID."""
    queue = pathlib.Path(f'/sys/block/{guest.kernel_name(device)}/queue')
    (queue / 'scheduler').write_text(layouts.SCHEDULER)
    (queue / 'rotational').write_text('1')
    disk = prepare.prepare(
        str(ROOT),
        device,
        medium='hdd',
        mbps=mbps,
        fstab=str(TOP / 'fstab'),
        lvm_options=lvm_prepare.Options(zero=False),
    )
    # nothing was ever written to it
    group_changes.mark_zeroed(disk.uuid)
    return disk.uuid


def created(name: str, location: Location, leg: int, minimum: int) -> str:
    """Make a striped vdisk with its device, and return the path of that."""
    for uuid, suffix in naming.pieces(location):
        volumes.create_piece(
            uuid, name + suffix, VOLUMES[name], None, leg, location, minimum
        )
    return stripes.activate_stripe(location, name, leg * len(location))


class Agent:
    """The I/O control of the agent, which decides on elastic vdisks."""

    def __init__(
        self, conf: cfg.ConfigOpts, servers: list[libvirt_servers.Server]
    ) -> None:
        self._disks: list[discover.Disk] = discover.discover(str(ROOT))
        free_gb = {disk.uuid: ROOM_GB for disk in self._disks}
        self._io_control = io_control.IOControl(
            conf, lambda: servers, lambda: self._disks, lambda: free_gb
        )

    def wanted(self) -> elastic_status.WantedStep | None:
        """Return the step that the agent wants."""
        status = self._io_control.current_status()
        found = status.elastic if status else None
        return found.step if found else None

    def why(self) -> str:
        """Return the verdict on the vdisk."""
        status = self._io_control.current_status()
        found = status.elastic if status else None
        return '; '.join(one.why for one in found.vdisks) if found else ''

    def run(self, stopped: threading.Event) -> None:
        """Measure and decide until ``stopped`` is set."""
        thread = threading.Thread(target=self._io_control.run, args=(stopped,))
        thread.start()
        last = ''
        while not stopped.wait(DISCOVER_S):
            self._disks = discover.discover(str(ROOT))
            if self.why() != last:
                last = self.why()
                say(last)
        thread.join()


@contextlib.contextmanager
def running(
    *work: collections.abc.Callable[[threading.Event], None],
) -> collections.abc.Iterator[None]:
    """Have threads work, and end them."""
    stopped = threading.Event()
    threads = [threading.Thread(target=one, args=(stopped,)) for one in work]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        stopped.set()
        for one in threads:
            one.join()


def configured(settings: guest.Settings) -> cfg.ConfigOpts:
    """Return the configuration of the agent."""
    path = TOP / 'diskplacer.conf'
    lines = [
        '[diskplacer]', f'disk_root = {ROOT}',
        '[diskplacer_agent]', f'state_dir = {TOP}/state',
        '[diskplacer_elastic]', 'enabled = true',
        *(f'{key} = {value}' for key, value in settings['options'].items()),
    ]  # fmt: skip
    path.write_text('\n'.join(lines))
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    conf.register_opt(cfg.StrOpt('host', default='testbed'))
    log.register_options(conf)
    # not where who started it is told
    conf.set_default('use_stderr', True)
    conf([], default_config_files=[str(path)])
    log.setup(conf, 'elastic')
    return conf


def measure(settings: guest.Settings) -> guest.Settings:
    """Return what the phases and the steps were like."""
    TOP.mkdir(parents=True)
    conf = configured(settings)
    guest.run('modprobe', 'dm-mirror')
    uuids = [prepared(one, settings['mbps']) for one in settings['devices']]
    leg, count = settings['leg_mib'] * MIB, len(uuids)
    size = count * leg
    home = Location((uuids[0],) * count)
    stripe = created(STRIPE, Location(uuids), leg, 0)
    device = created(NAME, home, leg, 1)
    other = created(NEIGHBOUR, Location((uuids[-1],)), NEIGHBOUR_SIZE, 0)
    make = functools.partial(
        loads_.streams, size=size, count=settings['streams']
    )
    origin = time.time()
    loads: dict[str, loads_.Load] = {}

    def phase(name: str, *argv: str) -> loads_.Load:
        say(f'phase {name}')
        loads[name] = loads_.Load(TOP, 'server', *argv)
        return loads[name]

    with loads_.cgroups():
        neighbour = loads_.Load(
            TOP, 'neighbour', *loads_.steady(other, settings['neighbour_rate'])
        )
        try:
            for name, path in (('stripe', stripe), ('narrow', device)):
                seconds = settings['seconds'][name]
                phase(name, *make(path, seconds=seconds)).wait()
            agent = Agent(
                conf,
                [
                    loads_.server('server', device),
                    loads_.server('neighbour', other),
                ],
            )
            mover = Mover(home, size, origin, agent.wanted)

            def execute(stopped: threading.Event) -> None:
                executor.Executor(
                    str(ROOT),
                    mover,
                    agent.wanted,
                    stopped,
                    conf.diskplacer_elastic.copy_share,
                ).run()

            with running(agent.run, execute):
                while not agent.why():
                    time.sleep(1)
                seconds = settings['seconds']['pressure']
                phase('pressure', *make(device, seconds=seconds)).wait()
                quiet = make(
                    device,
                    seconds=settings['seconds']['quiet'],
                    rate=settings['quiet_rate'],
                )
                phase('quiet', *quiet).wait()
                location = mover.location
        finally:
            neighbour.stop()
    stripes.deactivate(NAME)
    phases = {}
    for name, load in loads.items():
        seconds = load.seconds(origin)
        phases[name] = {
            'begin': load.begin - origin,
            'first': seconds[0][0] + 1,
            # afterwards fio writes its log
            'end': seconds[-1][0],
            'seconds': seconds,
        }
    return {
        'phases': phases,
        'neighbour': neighbour.seconds(origin),
        'neighbour_disk': uuids[-1],
        'steps': mover.steps,
        'end_width': location.width,
    }


def main() -> None:
    print(json.dumps(measure(json.loads(sys.argv[1]))))


if __name__ == '__main__':
    main()
