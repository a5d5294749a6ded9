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
"""Configures io.cost, which shares disks by weight, for measured disks.

io.cost issues requests at the rate of the disk's cost model, so that they wait
where weights count. A model slower than the disk wastes throughput; with one
that is faster, requests queue in the disk and weights have no effect.
"""

import collections.abc
import contextlib
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import io_cost_model
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

_MODEL = 'io.cost.model'
_QOS = 'io.cost.qos'
_SUBTREE = 'cgroup.subtree_control'

# io.cost's period is twice the larger latency target, even though it does not
# adjust its rate by latencies here. With the default of half a second, cgroups
# of low weight get far too much; with little more than the time of a request,
# it issues too little. The target is the time of some requests or seeks.
_REQUESTS = 8
_REQUEST_BYTES = 128 << 10
_MIN_LATENCY_US = 1000

# A disk below this share of its measured speed is logged as a warning, once.
_SLOW = 0.9


class IOCost:
    """Enables io.cost on disks and adapts their cost models.

    The previous configuration is saved before the first change.

    :param hierarchy: None where no cgroup controller accounts for I/O.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy | None
    ) -> None:
        self._hierarchy = hierarchy
        self._saved = saved_settings.SavedSettings(
            os.path.join(conf.diskplacer_agent.state_dir, 'io.cost'),
            self._write_back,
        )
        self._models: dict[str, io_cost_model.AdaptiveModel] = {}
        self._cgroup_bytes: dict[str, int] = {}
        self._warned: set[str] = set()
        self._model_log = log_once.ChangeLogger(LOG, logging.INFO)

    def enable(self, device: Device, measured: io_model.Model) -> None:
        """Enable io.cost with a disk's adapted model; repeatable.

        :raises ContentionError: the kernel has no io.cost, or refuses.
        :raises DiskError: the previous configuration cannot be saved.
        :raises OSError: the device is gone.
        """
        root = self._root()
        model = self._models.get(device.uuid)
        if model is None or model.measured != measured:
            model = io_cost_model.AdaptiveModel(measured)
            self._models[device.uuid] = model
        # the model first: io.cost must not run with its default model
        settings = {
            _MODEL: {
                'ctrl': 'user', 'model': 'linear', **model.coefficients(),
            },
            _QOS: qos(model),
        }  # fmt: skip
        changes = [
            (file, fields)
            for file, fields in settings.items()
            if _fields(_line(root, file, device.number)) != fields
        ]
        if changes:
            self._save(root, device)
        if 'io' not in _read(root, _SUBTREE).split():
            # never reverted: it is harmless
            _write(root, _SUBTREE, '+io')
        for file, fields in changes:
            text = ' '.join(f'{key}={value}' for key, value in fields.items())
            _write(root, file, f'{device.number} {text}')

    def adapt_models(
        self, states: collections.abc.Mapping[str, types.DiskState]
    ) -> None:
        """Update the models of disks that are slower or faster; once a second.

        A disk whose model cannot be changed affects no other.

        :param states: of disks, by UUID; disks without io.cost are ignored.
        """
        for uuid, model in self._models.items():
            state = states.get(uuid)
            if state is None or state.iocost_usage is None:
                continue
            try:
                share = self._cgroup_share(model, state)
                scales = model.scales
                if model.update(state, share):
                    if model.scales != scales:
                        self._log_scales(uuid, model)
                    self.enable(state.device, model.measured)
            except (exception.DiskPlacerError, OSError) as error:
                # the next call of enable reports it
                reason: Exception | None = error
            else:
                reason = None
            if reason is None:
                self._model_log.clear(uuid)
            else:
                self._model_log.log(
                    uuid,
                    'The model of disk %s is not changed: %s',
                    uuid,
                    reason,
                )

    def scales(self) -> dict[str, dict[str, float]]:
        """Return the speeds of disks by UUID and component; 1.0 as measured.

        Components are ``bytes`` and ``requests``.
        """
        return {uuid: model.scales for uuid, model in self._models.items()}

    def speeds(self) -> dict[str, float]:
        """Return the bytes that disks read in a charged second, by UUID."""
        return {
            uuid: model.rate * float(model.coefficients()['rbps'])
            for uuid, model in self._models.items()
        }

    def disable(self, uuid: str) -> None:
        """Restore the previous io.cost configuration of a disk; repeatable.

        :raises ContentionError: the kernel refuses.
        :raises DiskError: the saved configuration cannot be read.
        """
        self._models.pop(uuid, None)
        self._cgroup_bytes.pop(uuid, None)
        self._saved.restore(uuid)

    def disable_except(
        self, uuids: collections.abc.Container[str] = ()
    ) -> None:
        """Restore the configuration of all disks, or of all other ones.

        :raises DiskError: a disk could not be restored.
        """
        unwanted = [uuid for uuid in self._saved.uuids() if uuid not in uuids]
        for uuid in unwanted:
            self._models.pop(uuid, None)
            self._cgroup_bytes.pop(uuid, None)
        self._saved.restore_all(unwanted)

    def _root(self) -> str:
        if self._hierarchy is None:
            raise exception.ContentionError(
                'io.cost needs cgroup v2 with the io controller: boot with it'
            )
        return self._hierarchy.root

    def _save(self, root: str, device: Device) -> None:
        """Save the configuration before the agent's first change."""
        sequence = block_queue.diskseq(device.name)
        if (
            self._saved.get_originals(device.uuid, device.name, sequence)
            is None
        ):
            values = {
                'number': device.number,
                _MODEL: _restorable(_line(root, _MODEL, device.number)),
                _QOS: _restorable(_line(root, _QOS, device.number)),
            }
            self._saved.save(
                device.uuid,
                saved_settings.DeviceSettings(device.name, sequence, values),
            )

    def _write_back(self, saved: saved_settings.DeviceSettings) -> bool:
        root, values = self._root(), saved.values
        number = values['number']
        # disabled first: io.cost must not run with a partly restored model
        _write(root, _QOS, f'{number} enable=0')
        _write(root, _MODEL, f'{number} {values[_MODEL]}')
        _write(root, _QOS, f'{number} {values[_QOS]}')
        LOG.info('The io.cost configuration of %s is restored.', saved.device)
        return True

    def _cgroup_share(
        self, model: io_cost_model.AdaptiveModel, state: types.DiskState
    ) -> float | None:
        """Return the share of a disk's bytes that cgroups caused.

        It is None unless the model was too fast in this and the last interval:
        it takes reading a file of each cgroup below the root.
        """
        uuid, number = state.device.uuid, state.device.number
        if not model.too_fast:
            self._cgroup_bytes.pop(uuid, None)
            return None
        now = _bytes_below(self._root(), number)
        before = self._cgroup_bytes.get(uuid)
        self._cgroup_bytes[uuid] = now
        total = (state.read_bytes + state.write_bytes) * state.seconds
        if before is None or total <= 0:
            return None
        return (now - before) / total

    def _log_scales(
        self, uuid: str, model: io_cost_model.AdaptiveModel
    ) -> None:
        scales = model.scales
        slow = min(scales.values()) < _SLOW
        LOG.log(
            logging.WARNING
            if slow and uuid not in self._warned
            else logging.INFO,
            'Disk %s is modeled at %.0f %% of its measured bytes/s and %.0f '
            '%% of its measured requests/s.%s',
            uuid, 100 * scales[io_cost_model.BYTES],
            100 * scales[io_cost_model.REQUESTS],
            ' If that lasts, measure it again.' if slow else '',
        )  # fmt: skip
        if slow:
            self._warned.add(uuid)


def qos(model: io_cost_model.AdaptiveModel) -> dict[str, str]:
    """Return the fields of ``io.cost.qos`` for a disk with this model."""
    figures = {name: int(text) for name, text in model.coefficients().items()}
    latency = {
        way: max(
            _REQUEST_BYTES / figures[way + 'bps'],
            1 / figures[way + 'randiops'],
        )
        for way in 'rw'
    }
    rate = f'{100 * model.rate:.2f}'
    return {
        'enable': '1',
        'ctrl': 'user',
        'rpct': '0.00',
        'rlat': str(_latency_us(latency['r'])),
        'wpct': '0.00',
        'wlat': str(_latency_us(latency['w'])),
        'min': rate,
        'max': rate,
    }


def _latency_us(seconds: float) -> int:
    return max(_MIN_LATENCY_US, round(_REQUESTS * seconds * 1e6))


def _line(root: str, file: str, number: str) -> str:
    """Return the fields of a device in a file, '' if it is not listed."""
    for line in _read(root, file).splitlines():
        device, _, rest = line.partition(' ')
        if device == number:
            return rest.strip()
    return ''


def _restorable(line: str) -> str:
    """Return the fields to write to restore a line.

    The kernel's own values are left out: written back, they would become the
    user's.
    """
    fields = _fields(line)
    if fields.get('ctrl') == 'user':
        return line
    return ' '.join(
        f'{key}={value}'
        for key, value in {**fields, 'ctrl': 'auto'}.items()
        if key in ('enable', 'ctrl')
    )


def _fields(line: str) -> dict[str, str]:
    return dict(field.partition('=')[::2] for field in line.split())


def _bytes_below(root: str, number: str) -> int:
    """Return the bytes that cgroups have read from and written to a device."""
    total = 0
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
    for name in names:
        # a cgroup may disappear at any time
        with contextlib.suppress(exception.ContentionError):
            fields = _fields(_line(root, f'{name}/io.stat', number))
            total += int(fields.get('rbytes', 0)) + int(
                fields.get('wbytes', 0)
            )
    return total


def _read(root: str, file: str) -> str:
    path = os.path.join(root, file)
    try:
        with open(path, encoding='ascii') as stream:
            return stream.read()
    except OSError as error:
        raise exception.ContentionError(
            f'{path}: {error.strerror}: io.cost needs a kernel with '
            'CONFIG_BLK_CGROUP_IOCOST'
        ) from error


def _write(root: str, file: str, text: str) -> None:
    path = os.path.join(root, file)
    try:
        sysfs.write_to_device(text.partition(' ')[0], path, text)
    except OSError as error:
        raise exception.ContentionError(
            f'{path}: {text!r} is refused: {error.strerror}'
        ) from error
