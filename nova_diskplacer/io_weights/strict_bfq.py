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

"""Has BFQ issue one request at a time while the weights of servers differ.

A disk reorders the requests in its own queue whatever their weights: one that
is read in sequence keeps a request elsewhere waiting for up to half a second.
With ``strict_guarantees`` BFQ issues the next request when the disk has served
the one before. That costs requests at random places the disk's reordering, so
it is set only while it is needed.
"""

import collections.abc
import contextlib
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import log_once
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

_SETTING = 'iosched/strict_guarantees'
_ON = '1'

# Seconds for which it stays set after the weights differed last.
_KEPT_S = 10.0


def find_contended(
    pairs: collections.abc.Iterable[types.ConsumerDisk],
    idle: collections.abc.Iterable[bool],
    weights: collections.abc.Mapping[types.ConsumerDisk, int],
) -> set[str]:
    """Return the UUIDs of disks whose active servers differ in weight.

    :param idle: whether a pair had no requests in the last interval.
    """
    found: dict[str, int] = {}
    contended = set()
    for pair, is_idle in zip(pairs, idle, strict=True):
        if is_idle:
            continue
        uuid = pair[1]
        weight = weights.get(pair, controllers.DEFAULT_WEIGHT)
        if found.setdefault(uuid, weight) != weight:
            contended.add(uuid)
    return contended


class StrictBFQ:
    """Sets ``strict_guarantees`` of BFQ, and restores it.

    The original value is saved first, so that another agent can restore it.

    :raises DiskError: the kernel has no boot ID.
    """

    def __init__(self, conf: cfg.ConfigOpts, sys: str = sysfs.SYS) -> None:
        self._sys = sys
        self._saved = saved_settings.SavedSettings(
            os.path.join(conf.diskplacer_agent.state_dir, 'bfq'),
            self._write_back,
            sys,
        )
        self._kept_s: dict[str, float] = {}
        self._log = log_once.ChangeLogger(LOG)

    def apply(
        self,
        contended: collections.abc.Mapping[str, Device],
        seconds: float,
    ) -> None:
        """Set it on these disks, and restore it on others soon; repeatable.

        A disk that cannot be changed affects no other.

        :param contended: hard disks with BFQ, by UUID.
        :param seconds: the length of the interval.
        :raises DiskError: the saved settings cannot be listed.
        """
        self._kept_s = {
            uuid: left - seconds
            for uuid, left in self._kept_s.items()
            if left > seconds
        } | dict.fromkeys(contended, _KEPT_S)
        failed = {}
        for uuid in {*contended, *self._saved.uuids()}:
            try:
                if uuid in contended:
                    self._set(contended[uuid])
                elif uuid not in self._kept_s:
                    self._saved.restore(uuid)
            except (exception.DiskPlacerError, OSError) as error:
                failed[uuid] = str(error)
        for uuid, reason in failed.items():
            self._log.log(
                uuid,
                '%s of BFQ on disk %s is not changed: %s',
                _SETTING,
                uuid,
                reason,
            )
        self._log.clear_except(failed)

    def restore(self) -> None:
        """Restore all disks, also those that an earlier agent changed.

        :raises DiskError: a disk could not be restored.
        """
        self._kept_s.clear()
        self._saved.restore_all(self._saved.uuids())

    def _set(self, device: Device) -> None:
        path = sysfs.device_path(device.name, self._sys)
        now = sysfs.read(f'{path}/queue/{_SETTING}')
        if now == _ON:
            return
        sequence = block_queue.diskseq(device.name, self._sys)
        # another value than the saved one is that of a new BFQ
        self._saved.save(
            device.uuid,
            saved_settings.DeviceSettings(
                device.name, sequence, {_SETTING: now}
            ),
        )
        block_queue.write(device.name, _SETTING, _ON, self._sys)

    def _write_back(self, saved: saved_settings.DeviceSettings) -> bool:
        # without BFQ the setting is gone
        with contextlib.suppress(FileNotFoundError):
            for setting, value in saved.values.items():
                block_queue.write(saved.device, setting, value, self._sys)
        return True
