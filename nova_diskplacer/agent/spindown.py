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

"""Lets rotational disks go into standby, and counts what that saves."""

import collections.abc
import dataclasses
import functools
import re
import time
import typing

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import standby
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import hdparm
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# Seconds to wait for the answers of all disks.
_TIMEOUT = 10.0

_POWER = re.compile(r'\s*(\S.*?)\s*=\s*([\d.]+)\s*:\s*([\d.]+)\s*')


class Power(typing.NamedTuple):
    """The power that a model of disks takes, idle and in standby, in watts."""

    idle: float
    standby: float


@dataclasses.dataclass(frozen=True)
class Standby:
    """The standby of a disk since the start of the agent.

    ``now`` tells whether the disk is in standby, ``seconds`` how long it was,
    and ``joules`` what that saved, None without figures for its model.
    ``answered`` is the time of the last answer on a monotonic clock.
    """

    now: bool
    answered: float
    seconds: float = 0.0
    joules: float | None = None


class Spindown:
    """Sets the standby timeout of rotational disks, and removes it.

    A disk with a timeout is marked: see :mod:`nova_diskplacer.disks.standby`.
    The mark is set before the timeout and removed after it, so that an agent
    that starts later removes what a killed one has set. A disk in standby is
    left alone until it has spun up, because hdparm would wake it.

    ``disks`` are those with a timeout that have answered, by UUID.

    :raises DiskPlacerError: ``[diskplacer_agent] disk_power`` is malformed.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        options = conf.diskplacer_agent
        self._disk_root: str = conf.diskplacer.disk_root
        self._code = (
            hdparm.standby_code(options.spindown_timeout)
            if options.spindown
            else 0
        )
        self._power = parse_power(options.disk_power)
        self._probes: dict[tuple[str, str], probes.Probe[bool]] = {}
        # the sequence numbers of devices with the timeout, by UUID
        self._set: dict[str, str] = {}
        self._log = log_once.ChangeLogger(LOG)
        self.disks: dict[str, Standby] = {}

    def run(self, sample: types.Sample) -> None:
        """Ask all disks in parallel whether they are in standby; repeatable.

        A disk that refuses is logged once and affects no other.

        :raises OSError: the disk root cannot be read or written to.
        """
        requests = self._request(sample)
        ends = time.monotonic() + _TIMEOUT
        models = {disk.uuid: disk.model for disk in sample.prepared_disks}
        disks = {}
        for uuid, (probe, number) in requests.items():
            asleep = self._answer(uuid, probe, number, ends)
            before = self.disks.get(uuid)
            if asleep is None:
                if before:
                    disks[uuid] = dataclasses.replace(before, now=False)
            elif uuid in self._set:
                power = self._power.get(models.get(uuid, ''))
                disks[uuid] = count(before, asleep, time.monotonic(), power)
        self._log.clear_except(sample.devices)
        self.disks = disks

    def _request(
        self, sample: types.Sample
    ) -> dict[str, tuple[probes.Probe[bool], int]]:
        """Begin to ask the disks; returns the probe and request of each."""
        marked = standby.marked(self._disk_root)
        requests = {}
        for uuid, device in sample.devices.items():
            if device.rotational and (self._code or uuid in marked):
                probe = self._probes.setdefault(
                    (uuid, device.name),
                    probes.Probe(functools.partial(self._check, device)),
                )
                requests[uuid] = probe, probe.request()
        return requests

    def _answer(
        self, uuid: str, probe: probes.Probe[bool], number: int, ends: float
    ) -> bool | None:
        """Wait for an answer; returns whether the disk is in standby.

        :param number: the number of the request.
        :param ends: when to stop waiting, by the monotonic clock.
        :returns: None if there is no answer: the disk hangs or spins up. False
            if it refuses.
        """
        try:
            if not probe.wait(number, ends - time.monotonic()):
                return None
        except (exception.DiskPlacerError, OSError) as raised:
            error = raised
        else:
            self._log.clear(uuid)
            return bool(probe.latest)
        self._log.log(uuid, 'Disk %s has no standby timeout: %s', uuid, error)
        if self._code and uuid not in self._set:
            standby.set_mark(self._path(uuid), False)
        return False

    def _check(self, device: Device) -> bool:
        """Set or remove the timeout of a disk that is not in standby.

        :returns: whether the disk is in standby.
        """
        uuid, name = device.uuid, device.name
        if hdparm.in_standby(name):
            if self._code and standby.is_marked(self._path(uuid)):
                # an earlier agent has set it
                self._set.setdefault(uuid, '')
            return True
        disk = block_queue.diskseq(name) or name
        is_marked = standby.is_marked(self._path(uuid))
        if not self._code:
            hdparm.set_standby(name, 0)
            standby.set_mark(self._path(uuid), False)
            LOG.info('Disk %s (%s) has no standby timeout now.', uuid, name)
        elif self._set.get(uuid) != disk or not is_marked:
            # it is new, or was forgotten and prepared again
            standby.set_mark(self._path(uuid), True)
            hdparm.set_standby(name, self._code)
            self._set[uuid] = disk
            LOG.info(
                'Disk %s (%s) goes into standby by itself now (hdparm -S %d).',
                uuid,
                name,
                self._code,
            )
        return False

    def _path(self, uuid: str) -> str:
        return discover.disk_path(self._disk_root, uuid)


def count(
    before: Standby | None, asleep: bool, now: float, power: Power | None
) -> Standby:
    """Return the standby of a disk after one more answer.

    The time between two answers counts if both say that the disk is in
    standby.

    :param now: seconds of a monotonic clock.
    """
    spent = now - before.answered if before and before.now and asleep else 0.0
    seconds = (before.seconds if before else 0.0) + spent
    return Standby(
        asleep,
        now,
        seconds,
        seconds * (power.idle - power.standby) if power else None,
    )


def parse_power(texts: collections.abc.Iterable[str]) -> dict[str, Power]:
    """Return the figures of the option ``disk_power``, by model.

    :raises DiskPlacerError: a text is malformed.
    """
    powers = {}
    for text in texts:
        match = _POWER.fullmatch(text)
        try:
            if match is None:
                raise ValueError
            power = Power(float(match[2]), float(match[3]))
            if power.standby > power.idle:
                raise ValueError
        except ValueError:
            raise exception.DiskPlacerError(
                f'[diskplacer_agent] disk_power={text} is not '
                'MODEL=IDLE:STANDBY, with watts of which STANDBY is at most '
                'IDLE'
            ) from None
        powers[match[1]] = power
    return powers
