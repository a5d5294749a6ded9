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

"""Polls the health of disks, and keeps and logs warnings of disks."""

import collections.abc
import functools
import time
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import json_store
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import smart
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# Seconds for which a warning of grown errors stays in force.
_GROWTH_SECONDS = 86400

# Suffix of the file with the kernel's error counter, after the disk's UUID.
_KERNEL = '.kernel'

# Degrees Celsius below the threshold at which a warning ends.
_HYSTERESIS = 3


class Warnings:
    """The warnings in force, by the UUID of the disk and their kind.

    A warning is logged when it begins and when it ends, not when its text
    changes. Threads may share one object.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def update(
        self,
        uuid: str,
        kind: str,
        text: str,
        begins: bool,
        stays: bool | None = None,
    ) -> None:
        """Set or end a warning.

        :param kind: one of ``types.WARNINGS``.
        :param begins: the condition for a warning that is not in force.
        :param stays: the condition for one that is, by default the same.
        """
        is_known = (uuid, kind) in self._texts
        if stays if is_known and stays is not None else begins:
            self._texts[uuid, kind] = text
            if not is_known:
                LOG.warning('Disk %s: %s', uuid, text)
        elif is_known:
            del self._texts[uuid, kind]
            LOG.info('Disk %s: the warning of %s has ended.', uuid, kind)

    def for_disk(self, uuid: str) -> dict[str, str]:
        """Return the texts of a disk's warnings by kind."""
        texts = sorted(self._texts.items())
        return {key[1]: text for key, text in texts if key[0] == uuid}

    def clear_except(self, uuids: collections.abc.Container[str]) -> None:
        """Forget the warnings of disks that have gone."""
        for key in list(self._texts):
            if key[0] not in uuids:
                del self._texts[key]


class HealthMonitor:
    """The health of disks by SMART.

    Error counters are compared to the previous ones, which are stored in
    ``[diskplacer_agent] state_dir``: only growth matters. Disks without SMART
    have the kernel's counter. One thread polls, any thread may read.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._threshold: int = conf.diskplacer_monitor.warn_temperature
        self._store = json_store.JsonStore(
            f'{conf.diskplacer_agent.state_dir}/health'
        )
        self.warnings = Warnings()
        self._temperatures: dict[str, int] = {}
        self._no_smart = log_once.ChangeLogger(LOG, logging.INFO)
        self._probes: dict[str, probes.Probe[smart.Report | None]] = {}

    def temperature(self, uuid: str) -> int | None:
        """Return the temperature of a disk in degrees Celsius, if known."""
        return self._temperatures.get(uuid)

    def poll(
        self,
        devices: collections.abc.Mapping[str, Device],
        resting: collections.abc.Container[str] = (),
    ) -> None:
        """Query all disks in parallel and wait for the slowest of them.

        A disk that hangs is queried again only after it has answered.

        :param resting: UUIDs of disks that are not queried and stay as known:
            most disks restart the time until they go into standby.
        """
        polled = {
            device: self._probes.setdefault(
                device.name,
                probes.Probe(functools.partial(smart.read, device.name)),
            )
            for device in devices.values()
            if device.uuid not in resting
        }
        requests = {
            device: probe.request() for device, probe in polled.items()
        }
        ends = time.monotonic() + smart.TIMEOUT
        for device, number in requests.items():
            probe, error = polled[device], ''
            try:
                if not probe.wait(number, ends - time.monotonic()):
                    error = f'SMART of {device.name}: no answer'
            except exception.DiskError as raised:
                error = str(raised)
            if error:
                # what the disk has said before is not over
                self._no_smart.log(device.uuid, '%s', error)
                self._temperatures.pop(device.uuid, None)
                self._check_errors(
                    device,
                    device.uuid + _KERNEL,
                    smart.read_kernel_counter(device.name),
                    time.time(),
                )
                continue
            self._no_smart.clear(device.uuid)
            # None: the disk is in standby
            if probe.latest is not None:
                self._follow_kernel(device)
                self._check(device, probe.latest, time.time())
        self._no_smart.clear_except(devices)
        self.warnings.clear_except(devices)
        for uuid in self._temperatures.keys() - devices.keys():
            del self._temperatures[uuid]

    def _follow_kernel(self, device: Device) -> None:
        """Save the kernel's error counter of a disk whose SMART answers.

        Growth is counted only between polls that SMART does not answer: the
        counter includes failed requests of smartctl.
        """
        state = self._store.load(device.uuid + _KERNEL)
        if not isinstance(state, dict):
            return
        errors = smart.read_kernel_counter(device.name).errors
        if state['errors'] != errors:
            self._store.save(
                device.uuid + _KERNEL, {**state, 'errors': errors}
            )

    def _check(self, device: Device, report: smart.Report, now: float) -> None:
        """Update the warnings of a disk from its SMART report."""
        uuid, name, threshold = device.uuid, device.name, self._threshold
        degrees = report.temperature
        if degrees is None:
            self._temperatures.pop(uuid, None)
        else:
            self._temperatures[uuid] = degrees
            self.warnings.update(
                uuid,
                types.TEMPERATURE,
                f'the temperature of {name} is {degrees} °C; the threshold is '
                f'[diskplacer_monitor] warn_temperature={threshold}',
                begins=0 < threshold <= degrees,
                stays=0 < threshold - _HYSTERESIS <= degrees,
            )
        self.warnings.update(
            uuid,
            types.FAILING,
            f'{name} reports that it is failing; to move its vdisks to other '
            f'disks: diskplacer-manage disk drain {uuid}',
            not report.passed,
        )
        self._check_errors(device, uuid, report, now)

    def _check_errors(
        self, device: Device, source: str, report: smart.Report, now: float
    ) -> None:
        """Warn if errors of a disk have grown, by SMART or by the kernel.

        :param source: the name of the counters in the store.
        """
        before = self._store.load(source)
        after = track_error_growth(before, report, now)
        if after != before:
            self._store.save(source, after)
        # what one of both has seen is true while only the other one answers
        texts = [
            f'{name} from {growth["from"]} to '
            # files of earlier releases have no last value
            f'{growth.get("to", state["errors"][name])}'
            for stored in (device.uuid, device.uuid + _KERNEL)
            for state in [after if stored == source else self._load(stored)]
            for name, growth in state['grown'].items()
            if now - growth['at'] <= _GROWTH_SECONDS
        ]
        self.warnings.update(
            device.uuid,
            types.ERRORS,
            f'errors of {device.name} have grown: {", ".join(texts)}',
            bool(texts),
        )

    def _load(self, source: str) -> dict[str, Any]:
        state = self._store.load(source)
        return state if isinstance(state, dict) else {'grown': {}}


def track_error_growth(
    before: Any, report: smart.Report, now: float
) -> dict[str, Any]:
    """Return the state of a disk's error counters for the store.

    ``errors`` are the counters, ``grown`` those that have grown in the last
    day, each with its first and last value and the time of the last growth.
    Some are gauges, such as the sectors that wait to be rewritten: they have
    grown as long as they are above the first value.

    :param now: seconds since the epoch.
    """
    grown: dict[str, dict[str, float]] = {}
    # a replacement disk with the same UUID has other counters
    if isinstance(before, dict) and before.get('serial') == report.serial:
        for name, count in report.errors.items():
            last = before['errors'].get(name, count)
            growth = before['grown'].get(name)
            if growth and (
                now - growth['at'] > _GROWTH_SECONDS or count <= growth['from']
            ):
                growth = None
            if count > last:
                grown[name] = {
                    'from': growth['from'] if growth else last,
                    'to': count,
                    'at': now,
                }
            elif growth:
                fell = {'to': count} if count < last else {}
                grown[name] = growth | fell
    return {'serial': report.serial, 'errors': report.errors, 'grown': grown}
