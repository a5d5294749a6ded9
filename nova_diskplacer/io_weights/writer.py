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

"""Writes the I/O weights of consumers to their cgroups, and restores them.

libvirt is not used: it would keep weights in the definitions and saved images
of domains, which then do not start where no controller honours weights.
"""

import collections
import collections.abc
import errno
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers as controllers_
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

#: The number of the default weight in a file, and the value of a device that
#: has none of its own.
DEFAULT = 'default'

# Intervals between two comparisons of a weight with the one in force.
_CHECK_INTERVALS = 2

# Errors if the cgroup, the device or its controller is gone with its weights.
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP)

_Errors = dict[types.ConsumerDisk, str]


# Pairs and their weights, by the path of the weight file below the hierarchy's
# root.
_Targets = dict[str, tuple[types.ConsumerDisk, int]]


class WeightWriter:
    """Writes weights, and restores those that are no longer wanted.

    Original weights are saved first, so that another agent can restore them.

    :raises DiskError: the kernel has no boot ID.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hierarchy: cgroups.Hierarchy,
        sys: str = sysfs.SYS,
    ) -> None:
        self._hierarchy = hierarchy
        self._sys = sys
        self._saved = saved_settings.SavedSettings(
            os.path.join(conf.diskplacer_agent.state_dir, 'weights'),
            self._write_back,
            sys,
        )
        # what this process has written, by disk and path
        self._written: dict[str, dict[str, int]] = {}
        self._interval = 0
        self._log = log_once.ChangeLogger(LOG)

    def apply(
        self,
        weights: collections.abc.Mapping[types.ConsumerDisk, int],
        consumers: collections.abc.Iterable[types.Consumer],
        devices: collections.abc.Mapping[str, Device],
        controllers: collections.abc.Mapping[str, controllers_.Controller],
    ) -> dict[types.ConsumerDisk, str]:
        """Write wanted weights and restore all others; repeatable.

        A pair that never had less than the default weight is not written. A
        weight that something else has changed is written again.

        :param weights: between the controller's minimum and default.
        :returns: errors of pairs without their weights.
        :raises DiskError: the saved weights cannot be listed.
        """
        errors: _Errors = {}
        cgroups_ = {consumer.key: consumer.cgroup for consumer in consumers}
        targets: dict[str, _Targets] = collections.defaultdict(dict)
        for pair, weight in weights.items():
            key, uuid = pair
            path = f'{cgroups_[key]}/{controllers[uuid].file}'
            targets[uuid][path] = pair, weight
        changed = self._changed_disks()
        failed = {}
        for uuid in [*changed, *(targets.keys() - set(changed))]:
            try:
                if uuid in targets:
                    errors |= self._apply_disk(devices[uuid], targets[uuid])
                else:
                    self._written.pop(uuid, None)
                    self._saved.restore(uuid)
            except (exception.DiskPlacerError, OSError) as error:
                failed[uuid] = str(error)
        for pair, text in errors.items():
            self._log.log(pair, '%s.', text)
        for uuid, reason in failed.items():
            self._log.log(
                uuid,
                'I/O weights on disk %s are not changed: %s.',
                uuid,
                reason,
            )
            for pair, _ in targets.get(uuid, {}).values():
                errors.setdefault(pair, reason)
        self._interval += 1
        self._log.clear_except({*changed, *targets, *weights})
        return errors

    def restore(self) -> None:
        """Restore all weights, also those that an earlier agent changed.

        :raises DiskError: a weight could not be restored.
        """
        self._written.clear()
        self._saved.restore_all(self._changed_disks())

    def _changed_disks(self) -> list[str]:
        # Earlier releases changed the default weight as well. It is restored
        # first: BFQ applies a new one to all devices.
        return sorted(self._saved.uuids(), key=lambda uuid: uuid != DEFAULT)

    def _apply_disk(self, device: Device, targets: _Targets) -> _Errors:
        """Write and restore weights of one disk; return errors of pairs."""
        sequence = block_queue.diskseq(device.name, self._sys)
        originals = self._saved.get_originals(
            device.uuid, device.name, sequence
        )
        if originals is None:
            self._written.pop(device.uuid, None)
            originals = {}

        first_read, errors = self._read_originals(device, targets, originals)
        if first_read:
            originals |= first_read
            self._save(device, sequence, originals)
        written = self._written.setdefault(device.uuid, {})
        for path in originals.keys() & targets.keys():
            pair, weight = targets[path]
            try:
                self._write(device, path, pair, weight, written)
            except FileNotFoundError:
                # the cgroup is gone
                continue
            except OSError as error:
                errors[pair] = f'{path} cannot be set to {weight}: {error}'
        unwanted = originals.keys() - targets.keys()
        for path in unwanted:
            written.pop(path, None)
            self._restore_weight(path, device.number, originals.pop(path))
        if unwanted:
            self._save(device, sequence, originals)
        return errors

    def _save(
        self, device: Device, sequence: str, originals: dict[str, str]
    ) -> None:
        settings = saved_settings.DeviceSettings(
            device.name, sequence, originals.copy()
        )
        self._saved.save(device.uuid, settings)

    def _read_originals(
        self,
        device: Device,
        targets: _Targets,
        saved: collections.abc.Container[str],
    ) -> tuple[dict[str, str], _Errors]:
        """Return the weights in files before their first change."""
        weights: dict[str, str] = {}
        errors: _Errors = {}
        for path, (pair, weight) in targets.items():
            if path in saved or weight >= controllers_.DEFAULT_WEIGHT:
                continue
            file = self._hierarchy.path(path)
            try:
                weights[path] = read_weight(file, device.number)
            except FileNotFoundError:
                # the cgroup may be gone as well
                if os.path.isdir(os.path.dirname(file)):
                    errors[pair] = (
                        f'{file} does not exist: the kernel lacks it '
                        '(CONFIG_BFQ_GROUP_IOSCHED), or a parent cgroup lacks '
                        '+io in cgroup.subtree_control'
                    )
        return weights, errors

    def _write(
        self,
        device: Device,
        path: str,
        pair: types.ConsumerDisk,
        weight: int,
        written: dict[str, int],
    ) -> None:
        """Write a weight unless it is in force."""
        file = self._hierarchy.path(path)
        if written.get(path) == weight:
            # something else may change it: rarely checked
            if (hash(path) + self._interval) % _CHECK_INTERVALS:
                return
            now = read_weight(file, device.number)
            if now == DEFAULT:
                now = read_weight(file, DEFAULT)
            if now == str(weight):
                return
            self._log.log(
                pair,
                'Something else changed the I/O weight of %s on disk %s: the '
                'agent restores it.',
                *pair,
            )
        written.pop(path, None)
        write_weight(file, device.number, str(weight))
        written[path] = weight

    def _write_back(self, saved: saved_settings.DeviceSettings) -> bool:
        number = DEFAULT
        if saved.device:
            number = block_queue.device_number(saved.device, self._sys)
        for path, value in saved.values.items():
            self._restore_weight(path, number, value)
        return True

    def _restore_weight(self, path: str, number: str, value: str) -> None:
        try:
            write_weight(self._hierarchy.path(path), number, value)
        except OSError as error:
            if error.errno not in _GONE:
                raise


def read_weight(path: str, number: str) -> str:
    """Return a device's weight, ``default`` if it has none of its own.

    :param number: ``major:minor`` of the device, or ``default``.
    :raises OSError: the file cannot be read.
    """
    return _read_weights(path).get(number, DEFAULT)


def write_weight(path: str, number: str, value: str) -> None:
    """Set a device's weight; ``default`` removes it.

    :raises OSError: the kernel refuses.
    """
    device = number
    is_bfq = os.path.basename(path) == controllers_.BFQ_CONTROLLER.file
    if is_bfq and value == DEFAULT:
        number, value = _bfq_default(path, number)
    sysfs.write_to_device(device, path, f'{number} {value}')


def _bfq_default(path: str, number: str) -> tuple[str, str]:
    """Return what to write to give a device of BFQ the default weight.

    With ``default`` for the device, BFQ shows no weight of it any more, but
    goes on with the last one (Linux 5.4 to 6.18 at least). A default weight is
    applied to all devices, and removes their weights.
    """
    weights = _read_weights(path)
    default = weights.pop(DEFAULT)
    weights.pop(number, None)
    if all(weight == default for weight in weights.values()):
        return DEFAULT, default
    return number, default


def _read_weights(path: str) -> dict[str, str]:
    with open(path, encoding='ascii') as stream:
        lines = (line.strip().partition(' ') for line in stream)
        return {device: value for device, _, value in lines}
