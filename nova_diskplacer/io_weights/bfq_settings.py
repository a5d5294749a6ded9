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

"""Settings of BFQ with which weights hold on a hard disk.

By default a disk reorders the requests in its own queue whatever their
weights, BFQ prefers queues that it takes for interactive, and a queue keeps
the disk for a long turn. And requests that wait are merged, so that a scan
which has used much has the disk do larger requests than one which has not.
The other settings have a price: requests at random places lose the disk's
reordering, and small ones in sequence are no longer merged. So they are set
only on a disk at its limit while weights differ, and while they cost no more
than ``[diskplacer_weights] prefer`` allows.
"""

import collections.abc
import contextlib
import functools
import math
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import log_once
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import turns
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

#: An attribute of the queue, which profiles may state, too.
NOMERGES = 'nomerges'
_NO_MERGES = '2'

_STRICT = 'iosched/strict_guarantees'
_LOW_LATENCY = 'iosched/low_latency'
_MAX_BUDGET = 'iosched/max_budget'

_SECTOR = 512

# In the order in which they are written. The first of BFQ's own shows whether
# this BFQ has been set, so it is restored last of them. It makes the kernel
# raise slice_idle to 8 ms, which is restored, too.
_NAMES = (NOMERGES, _STRICT, _LOW_LATENCY, _MAX_BUDGET)
_SAVED = (*_NAMES, 'iosched/slice_idle_us')

# Seconds for which a disk stays set after it was contended last: loads come
# and go.
_KEPT_S = 10.0


def find_contended(
    active: collections.abc.Mapping[str, collections.abc.Iterable[str]],
    weights: collections.abc.Mapping[types.ConsumerDisk, int],
) -> dict[str, dict[str, int]]:
    """Find the disks whose active servers differ in weight.

    :param active: the keys of each disk's servers that had requests in the
        last interval, by UUID.
    :returns: the weights of active servers by key, on each such disk by UUID.
    """
    found = {
        uuid: {
            key: weights.get((key, uuid), controllers.DEFAULT_WEIGHT)
            for key in keys
        }
        for uuid, keys in active.items()
    }
    return {
        uuid: of_servers
        for uuid, of_servers in found.items()
        if len(set(of_servers.values())) > 1
    }


def settings(
    device: Device, turn_s: float, reference: float | None
) -> dict[str, str]:
    """Return the settings of a disk whose active servers differ in weight.

    :param turn_s: seconds of a turn; BFQ's own on a disk of unknown speed.
    :param reference: bytes/s of the disk with BFQ's own settings, None if they
        were not tried. The disk may do less than an operator has said.
    """
    values = {NOMERGES: _NO_MERGES, _STRICT: '1', _LOW_LATENCY: '0'}
    if device.mbps:
        speed = min(device.mbps * 1e6, reference or math.inf)
        sectors = round(speed * turn_s / _SECTOR)
        values[_MAX_BUDGET] = str(max(1, sectors))
    return values


class BFQSettings:
    """Sets BFQ, and restores it.

    The original values are saved first, so that another agent can restore
    them.

    :raises DiskError: the kernel has no boot ID.
    """

    def __init__(self, conf: cfg.ConfigOpts, sys: str = sysfs.SYS) -> None:
        self._sys = sys
        self._saved = saved_settings_of(conf.diskplacer_agent.state_dir, sys)
        self._kept_s: dict[str, float] = {}
        self._trials = disk_trials.DiskTrials(conf)
        # by the UUID of a disk: of what is in force there
        self._in_force: dict[str, turns.Trial] = {}
        # disks with saved settings that have BFQ's own
        self._own: set[str] = set()
        self._log = log_once.ChangeLogger(LOG)

    def has_trial(self, uuid: str) -> bool:
        """Return whether a disk has the settings of its trial."""
        return uuid in self._in_force

    def apply(
        self,
        contended: collections.abc.Mapping[Device, disk_trials.Load],
        seconds: float,
        below_limit: collections.abc.Container[str] = (),
    ) -> dict[str, turns.Trial]:
        """Set these disks, and restore others soon; repeatable.

        A disk that cannot be changed affects no other.

        :param contended: hard disks with BFQ at their limit, whose active
            servers differ in weight.
        :param seconds: the length of the interval.
        :param below_limit: UUIDs of those that are not at their limit.
        :returns: the trials of these disks, and of those that are restored
            soon, by UUID.
        :raises DiskError: the saved settings cannot be listed.
        """
        trials = self._trials.step(contended, seconds, below_limit)
        devices = {device.uuid: device for device in contended}
        self._kept_s = disk_trials.less(self._kept_s, seconds) | dict.fromkeys(
            trials, _KEPT_S
        )
        self._in_force = {
            uuid: trial
            for uuid, trial in (self._in_force | trials).items()
            if uuid in self._kept_s
        }
        failed = {}
        saved = self._saved.uuids()
        for uuid in {*devices, *saved}:
            try:
                if uuid in devices:
                    self._change(devices[uuid], trials[uuid], uuid in saved)
                    self._trials.log_kept(devices[uuid], trials[uuid])
                elif uuid not in self._kept_s:
                    with plain_queue.lock(uuid, wait=False):
                        self._saved.restore(uuid)
            except (exception.DiskPlacerError, OSError) as error:
                # a queue that is tuned, or measured, is set later
                if not isinstance(error, BlockingIOError):
                    failed[uuid] = str(error)
                # what is not in force is not tried
                self._in_force.pop(uuid, None)
                self._trials.take_back(uuid)
        for uuid, reason in failed.items():
            self._log.log(
                uuid,
                'Settings of BFQ on disk %s are not changed: %s',
                uuid,
                reason,
            )
        self._log.clear_except(failed)
        return dict(self._in_force)

    def restore(self) -> None:
        """Restore all disks, also those that an earlier agent changed.

        :raises DiskError: a disk could not be restored.
        """
        self._kept_s.clear()
        self._saved.restore_all(self._saved.uuids(), _queue_locked)

    def _change(
        self, device: Device, trial: turns.Trial, is_saved: bool
    ) -> None:
        seconds = disk_trials.turn_s(device, trial)
        if seconds is not None:
            self._own.discard(device.uuid)
            with plain_queue.lock(device.uuid, wait=False):
                self._set(device, settings(device, seconds, trial.reference))
        elif is_saved and device.uuid not in self._own:
            with plain_queue.lock(device.uuid, wait=False):
                self._unset(device)
            self._own.add(device.uuid)

    def _set(
        self, device: Device, target: collections.abc.Mapping[str, str]
    ) -> None:
        now = self._read(device, _NAMES)
        sequence = block_queue.diskseq(device.name, self._sys)
        saved = self._saved.get_originals(device.uuid, device.name, sequence)
        originals = saved or {}
        # a scheduler that was chosen anew has its own settings again
        if now[_STRICT] != target[_STRICT]:
            originals = {
                name: value
                for name, value in originals.items()
                if name == NOMERGES
            }
        if originals.keys() != {*_SAVED}:
            originals = self._read(device, _SAVED) | originals
        if originals != saved:
            self._saved.save(
                device.uuid,
                saved_settings.DeviceSettings(
                    device.name, sequence, originals
                ),
            )
        for name in _NAMES:
            value = target.get(name, originals[name])
            if now[name] != value:
                block_queue.write(device.name, name, value, self._sys)

    def _unset(self, device: Device) -> None:
        """Write BFQ's own settings, and keep them saved for the next turns."""
        now = self._read(device, _SAVED)
        sequence = block_queue.diskseq(device.name, self._sys)
        originals = self._saved.get_originals(
            device.uuid, device.name, sequence
        )
        if originals is None:
            return
        # a scheduler that was chosen anew has its own settings
        names = (NOMERGES,) if now[_STRICT] == '0' else reversed(_SAVED)
        for name in names:
            if now[name] != originals.get(name, now[name]):
                block_queue.write(
                    device.name, name, originals[name], self._sys
                )

    def _read(
        self, device: Device, names: collections.abc.Iterable[str]
    ) -> dict[str, str]:
        queue = f'{sysfs.device_path(device.name, self._sys)}/queue'
        return {name: sysfs.read(f'{queue}/{name}') for name in names}


def saved_settings_of(
    state_dir: str, sys: str = sysfs.SYS
) -> saved_settings.SavedSettings:
    """Return the original settings of disks whose BFQ the agent has set.

    ``NOMERGES`` of these disks is not that of their operator, or of profiles.

    :raises DiskError: the kernel has no boot ID.
    """
    return saved_settings.SavedSettings(
        os.path.join(state_dir, 'bfq'),
        functools.partial(_write_back, sys),
        sys,
    )


def _write_back(sys: str, saved: saved_settings.DeviceSettings) -> bool:
    for name in reversed(_SAVED):
        if name in saved.values:
            # without BFQ its settings are gone
            with contextlib.suppress(FileNotFoundError):
                block_queue.write(saved.device, name, saved.values[name], sys)
    return True


@contextlib.contextmanager
def _queue_locked(uuid: str) -> collections.abc.Iterator[None]:
    """Keep the queue of a disk from being tuned or measured.

    :raises DiskError: it is.
    """
    try:
        with plain_queue.lock(uuid, wait=False):
            yield
    except BlockingIOError:
        raise exception.DiskError(
            'another process tunes or measures its queue'
        ) from None
