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

"""Watches the health of disks, slowly, and warns of what gets worse."""

import collections.abc
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import json_store
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_warnings
from nova_diskplacer.monitor import smart

LOG = logging.getLogger(__name__)

# How long a warning of errors that have grown lasts, in seconds.
_LASTS = 86400

# Degrees Celsius below the threshold at which a warning ends.
_COOLED = 3

# Seconds for which all that are asked are waited for, before the next turn.
_PAUSE = 0.1

# A report, None of a disk that sleeps, or why there is no report.
_Answer = smart.Report | str | None


class Health:
    """The health of disks, as they tell it themselves.

    Counters of errors are compared to what they were, which is kept in
    ``[diskplacer_agent] state_dir``: what matters is that they grow. Of disks
    that say nothing the kernel's count is taken. One thread looks, any may ask
    what was seen.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._hottest: int = conf.diskplacer_monitor.warn_temperature
        self._store = json_store.JsonStore(
            f'{conf.diskplacer_agent.state_dir}/health'
        )
        self._notices = disk_warnings.Notices()
        self._temperatures: dict[str, int] = {}
        self._no_smart = log_once.ChangeLogger(LOG, logging.INFO)
        self._probes: dict[str, probes.Probe[_Answer]] = {}

    def look(self, devices: collections.abc.Mapping[str, Device]) -> None:
        """Ask all disks at once, which takes as long as the slowest of them.

        One that hangs is asked no second time before it has answered.

        :param devices: the devices that are there, by the UUID of the disk.
        """
        asked = {
            device: self._probe(device.name) for device in devices.values()
        }
        begun = {device: probe.request() for device, probe in asked.items()}
        ends = time.monotonic() + smart.TIMEOUT
        while begun and time.monotonic() < ends:
            # whoever answers first is judged first
            for device, number in list(begun.items()):
                if asked[device].wait(number, _PAUSE / len(begun)):
                    del begun[device]
                    self._take(device, asked[device].latest)
        for device in begun:
            self._take(device, f'SMART of {device.name}: it does not answer')
        self._no_smart.clear_except(devices)
        for uuid in self._known() - devices.keys():
            self._temperatures.pop(uuid, None)
            self._notices.forget(uuid)

    def _probe(self, name: str) -> probes.Probe[_Answer]:
        return self._probes.setdefault(name, probes.Probe(lambda: _ask(name)))

    def _take(self, device: Device, answer: _Answer) -> None:
        """Judge a disk by its answer, or by what the kernel has counted."""
        if isinstance(answer, str):
            self._no_smart.log(device.uuid, '%s', answer)
            answer = smart.of_kernel(device.name)
        else:
            self._no_smart.clear(device.uuid)
        if answer is not None:
            self._judge(device, answer, time.time())

    def warnings(self) -> dict[str, tuple[str, ...]]:
        """Return the warnings in force, by the UUID of the disk."""
        return {uuid: self._notices.of(uuid) for uuid in self._notices.uuids()}

    def temperatures(self) -> dict[str, int]:
        """Return degrees Celsius by the UUID of the disk."""
        return self._temperatures.copy()

    def _known(self) -> set[str]:
        return {*self._temperatures, *self._notices.uuids()}

    def _judge(self, device: Device, report: smart.Report, now: float) -> None:
        uuid, name, most = device.uuid, device.name, self._hottest
        degrees = report.temperature
        if degrees is None:
            self._temperatures.pop(uuid, None)
        else:
            self._temperatures[uuid] = degrees
            self._notices.judge(
                uuid,
                'temperature',
                f'{name} has {degrees} °C, of which [diskplacer_monitor] '
                f'warn_temperature={most} warns',
                begins=0 < most <= degrees,
                stays=0 < most - _COOLED <= degrees,
            )
        self._notices.tell(
            uuid,
            'health',
            None if report.passed else f'{name} says that it is failing',
        )
        before = self._store.load(uuid)
        after = compared(before, report, now)
        if after != before:
            self._store.save(uuid, after)
        texts = [
            f'{what} from {growth["from"]} to {report.errors[what]}'
            for what, growth in after['grown'].items()
        ]
        self._notices.tell(
            uuid,
            'number of errors',
            f'errors of {name} have grown: {", ".join(texts)}'
            if texts
            else None,
        )


def _ask(name: str) -> _Answer:
    try:
        return smart.read(name)
    except exception.DiskError as error:
        return str(error)


def compared(before: Any, report: smart.Report, now: float) -> dict[str, Any]:
    """Return what to keep of a disk's counters of errors.

    ``errors`` are the counters as they are now, ``grown`` those that have
    grown of late: from what, and when they did last.

    :param before: what was kept at the look before, if anything.
    :param now: seconds since the epoch.
    """
    grown: dict[str, dict[str, float]] = {}
    # another disk with this content has other errors
    if isinstance(before, dict) and before.get('serial') == report.serial:
        for what, count in report.errors.items():
            then = before['errors'].get(what, count)
            growth = before['grown'].get(what)
            if growth and now - growth['at'] > _LASTS:
                growth = None
            if count > then:
                grown[what] = {
                    'from': growth['from'] if growth else then,
                    'at': now,
                }
            elif growth:
                grown[what] = growth
    return {'serial': report.serial, 'errors': report.errors, 'grown': grown}
