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

"""What io_cost_feedback.py has run in the testbed's guest."""

import concurrent.futures
import dataclasses
import json
import pathlib
import re
import sys
import threading
import time

import numpy
from oslo_config import cfg

import _contention_guest as guest
from nova_diskplacer import conf as options
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.monitor import disk_monitor
from nova_diskplacer.monitor import types

WEIGHTS = {'light': 100, 'heavy': 10}
# Bytes that both read of.
SIZE = 2 << 30
# Seconds for fio to begin, and for a model to be corrected.
SETTLE_S = 25
LOADS = {
    'sequential': ('--rw=read', '--bs=128k', '--iodepth=8'),
    'random': ('--rw=randread', '--bs=16k', '--iodepth=16'),
    'writes': ('--rw=write', '--bs=128k', '--iodepth=8'),
}
# The kernel's own feedback: 95 % of requests within a latency that is so many
# times that of a random request alone, at 50 to 150 % of the model's rate.
PERCENTILE = 95
TIMES_ALONE = 4
LOWEST, HIGHEST = 50, 150
# Has io.stat show more than the time that io.cost charges.
DEBUG = pathlib.Path('/sys/module/blk_cgroup/parameters/blkcg_debug_stats')
TIMES = ('usage', 'wait', 'indebt', 'indelay')


def configured() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    conf([], default_config_files=[str(guest.CONF)])
    return conf


class Agent:
    """What the agent does about io.cost, each second, until it is stopped."""

    def __init__(self, device: Device, model: io_model.Model) -> None:
        conf = configured()
        hierarchy = cgroups.hierarchy()
        self._device = device
        self._cost = io_cost.IOCost(conf, hierarchy)
        self._monitor = disk_monitor.DiskMonitor(conf, hierarchy)
        self._cost.enable(device, model)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        nobody, idle = types.Pairs(), numpy.zeros(0, bool)
        while not self._stopped.wait(1):
            states = self._monitor.update(
                time.monotonic(), {self._device.uuid: self._device},
                nobody, idle,
            )  # fmt: skip
            self._cost.adapt_models(states)

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self._cost.disable_except()


class Fixed:
    """The model as it was measured, at one rate."""

    def __init__(self, device: Device, model: io_model.Model) -> None:
        self._cost = io_cost.IOCost(configured(), cgroups.hierarchy())
        self._cost.enable(device, model)

    def stop(self) -> None:
        self._cost.disable_except()


class Kernel(Fixed):
    """The model as it was measured, at a rate that follows latencies."""

    def __init__(self, device: Device, model: io_model.Model) -> None:
        super().__init__(device, model)
        target = TIMES_ALONE * model.latency
        pathlib.Path(cgroups.hierarchy().root, 'io.cost.qos').write_text(
            f'{device.number} enable=1 ctrl=user rpct={PERCENTILE} '
            f'rlat={target} wpct={PERCENTILE} wlat={target} '
            f'min={LOWEST} max={HIGHEST}'
        )


class Nothing:
    """No io.cost."""

    def __init__(self, device: Device, model: io_model.Model) -> None:
        pass

    def stop(self) -> None:
        pass


ARMS = {'none': Nothing, 'fixed': Fixed, 'agent': Agent, 'kernel': Kernel}


def kernel_times(home: pathlib.Path, device: Device) -> dict[str, int]:
    """Return io.cost's own sums for a cgroup, in microseconds.

    They are the device time that was charged, and how long requests waited,
    were in debt and were delayed for it; none without io.cost.
    """
    for line in (home / 'io.stat').read_text().splitlines():
        if line.startswith(f'{device.number} '):
            return {
                name: int(value)
                for name, value in re.findall(r'cost\.(\w+)=(\d+)', line)
                if name in TIMES
            }
    return {}


def load(
    device: Device,
    homes: dict[str, pathlib.Path],
    loads: dict[str, str],
    seconds: int,
) -> dict[str, dict[str, float]]:
    """Return the MB/s and the latency of each task, and io.cost's times.

    They are in seconds of each second.
    """

    def do(place: int, name: str) -> dict[str, float]:
        home = homes[name]
        (home / 'io.weight').write_text(f'default {WEIGHTS[name]}')
        printed = guest.run(
            'sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"', str(home),
            'fio', f'--name={name}', f'--filename=/dev/{device.name}',
            '--direct=1', '--ioengine=libaio', '--thread',
            f'--offset={place * SIZE}', f'--size={SIZE}', '--time_based',
            f'--ramp_time={SETTLE_S}', f'--runtime={seconds}',
            '--clocksource=clock_gettime', '--output-format=json',
            *LOADS[loads[name]],
        )  # fmt: skip
        (job,) = json.loads(printed)['jobs']
        way = 'write' if loads[name] == 'writes' else 'read'
        return {
            'mbps': job[way]['bw_bytes'] / 1e6,
            'latency_ms': job[way]['clat_ns']['mean'] / 1e6,
        }

    with concurrent.futures.ThreadPoolExecutor(len(loads)) as pool:
        futures = {
            name: pool.submit(do, place, name)
            for place, name in enumerate(WEIGHTS)
            if name in loads
        }
        time.sleep(SETTLE_S)
        before = {name: kernel_times(homes[name], device) for name in futures}
        began = time.monotonic()
        time.sleep(seconds)
        after = {name: kernel_times(homes[name], device) for name in futures}
        elapsed_us = 1e6 * (time.monotonic() - began)
        return {
            name: one.result()
            | {
                what: (value - before[name][what]) / elapsed_us
                for what, value in after[name].items()
                if what in before[name]
            }
            for name, one in futures.items()
        }


def compare(settings: guest.Settings) -> guest.Settings:
    """Return what each arm gives each task, by loads."""
    found: guest.Settings = {}
    path = settings['device']
    (uuid,) = settings['uuids'].values()
    conf = configured()
    model = io_model.load(conf.diskplacer.disk_root, uuid)
    assert model is not None
    guest.run('umount', str(guest.DISKS / uuid))
    if DEBUG.exists():
        DEBUG.write_text('1')
    device = Device(
        uuid,
        guest.kernel_name(path),
        guest.number(path),
        rotational=settings['medium'] == 'hdd',
    )
    claimed = dataclasses.replace(
        model,
        **{
            name: round(getattr(model, name) * settings['faster'])
            for name in io_model.COEFFICIENTS
        },
    )
    with guest.cgroups([path], len(WEIGHTS)) as made:
        homes = dict(zip(WEIGHTS, made[path], strict=True))
        for light, heavy in settings['loads']:
            loads = {'light': light, 'heavy': heavy}
            for name, arm in ARMS.items():
                running = arm(device, claimed)
                try:
                    got = load(device, homes, loads, settings['seconds'])
                finally:
                    running.stop()
                found.setdefault(f'{light}_{heavy}', {})[name] = got
                print(
                    f'{light} beside {heavy}, {name}: {got}',
                    file=sys.stderr,
                    flush=True,
                )
    return {'model': dataclasses.asdict(model), 'found': found}


def main() -> None:
    what, settings = sys.argv[1:]
    call = {
        'prepare': guest.prepare,
        'measure': guest.measure,
        'compare': compare,
    }[what]
    print(json.dumps(call(json.loads(settings))))


if __name__ == '__main__':
    main()
