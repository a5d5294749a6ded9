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
"""Has io.cost share disks by weight, given how fast each of them is.

io.cost lets through what the disk can do by its model and no more, so that
requests wait where weights count, and not in the disk. A model that is slower
than the disk wastes some of it; one that is faster has all wait in the disk
again, and weights do nothing.
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
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import io_cost_model
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

_MODEL = 'io.cost.model'
_QOS = 'io.cost.qos'
_SUBTREE = 'cgroup.subtree_control'

# The kernel looks at who waits each two times the larger latency that it is
# given, though it is to go by none. In the default, half a second, those with
# little weight get far too much; in little more than a request takes, too
# little is let through. So it is that of some requests of 128 KiB, or seeks.
_REQUESTS = 8
_SIZE = 128 << 10
_LEAST_LATENCY = 1000

# A disk that does less than this of what was measured is warned of, once.
_SLOW = 0.9


class IOCost:
    """Keeps io.cost enabled on disks, with models that are true.

    What was there before is saved before the first change, and restored by
    whoever comes, also after the process was killed.

    :param hierarchy: None where there is no accounting of I/O at all.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy | None
    ) -> None:
        self._hierarchy = hierarchy
        self._originals = saved_settings.Originals(
            os.path.join(conf.diskplacer_agent.state_dir, 'io.cost'),
            saved_settings.boot_id(),
        )
        self._fits: dict[str, io_cost_model.Fit] = {}
        self._counts: dict[str, int] = {}
        self._told: set[str] = set()

    def enable(self, device: Device, model: io_model.Model) -> None:
        """Have io.cost share a disk, by its model as corrected; repeatable.

        :raises ContentionError: the kernel has no io.cost, or refuses.
        :raises DiskError: what was there before cannot be saved.
        """
        root = self._root()
        fit = self._fits.get(device.uuid)
        if fit is None or fit.model != model:
            fit = self._fits[device.uuid] = io_cost_model.Fit(model)
        wanted_model = {
            'ctrl': 'user', 'model': 'linear', **fit.coefficients(),
        }  # fmt: skip
        changes = [
            (file, wanted)
            # the model first: io.cost never goes by one of its own
            for file, wanted in (
                (_MODEL, wanted_model),
                (_QOS, qos(fit)),
            )
            if _fields(_line(root, file, device.number)) != wanted
        ]
        if changes:
            self._save(root, device)
        if 'io' not in _read(root, _SUBTREE).split():
            # there is no harm in leaving it so
            _write(root, _SUBTREE, '+io')
        for file, wanted in changes:
            text = ' '.join(f'{key}={one}' for key, one in wanted.items())
            _write(root, file, f'{device.number} {text}')

    def correct(
        self, states: collections.abc.Mapping[str, types.DiskState]
    ) -> None:
        """Notice disks that their models are too fast for; correct these.

        To be called once a round. A disk whose model cannot be changed
        spoils no other.

        :param states: of disks, by UUID; those without io.cost are ignored.
        """
        for uuid, fit in self._fits.items():
            state = states.get(uuid)
            if state is None or state.iocost_usage is None:
                continue
            try:
                counted = self._counted(fit, state)
                scales = fit.scales
                if fit.look(state, counted):
                    if fit.scales != scales:
                        self._tell(uuid, fit)
                    self.enable(state.device, fit.model)
            except exception.DiskPlacerError as error:
                # whoever enables it again is told why
                LOG.info('The model of disk %s stays: %s', uuid, error)

    def scales(self) -> dict[str, dict[str, float]]:
        """Return how fast disks are taken to be, 1.0 as measured.

        By the disk's UUID, and by what of the model: ``bytes``, ``requests``.
        """
        return {uuid: fit.scales for uuid, fit in self._fits.items()}

    def disable(self, uuid: str) -> None:
        """Have io.cost be on a disk as it was before; repeatable.

        :raises ContentionError: the kernel refuses.
        :raises DiskError: what was saved cannot be read.
        """
        self._fits.pop(uuid, None)
        self._counts.pop(uuid, None)
        original = self._originals.load(uuid)
        if original is not None and _there(original):
            root = self._root()
            number = original.values['number']
            # off first: it never goes by a half restored model
            _write(root, _QOS, f'{number} enable=0')
            _write(root, _MODEL, f'{number} {original.values[_MODEL]}')
            _write(root, _QOS, f'{number} {original.values[_QOS]}')
            LOG.info('io.cost of %s is as it was.', original.device)
        self._originals.forget(uuid)

    def keep(self, uuids: collections.abc.Container[str]) -> None:
        """Have io.cost be as it was on all disks but these.

        :raises DiskPlacerError: as ``restore`` does.
        """
        self._disable(
            uuid for uuid in self._originals.uuids() if uuid not in uuids
        )

    def restore(self) -> None:
        """Have io.cost be as it was on all disks where it was enabled.

        A disk that cannot be restored spoils no other.

        :raises ContentionError: the kernel has refused a disk.
        :raises DiskError: what was saved of a disk cannot be read.
        """
        self._disable(self._originals.uuids())

    def _disable(self, uuids: collections.abc.Iterable[str]) -> None:
        failed = None
        for uuid in uuids:
            try:
                self.disable(uuid)
            except exception.DiskPlacerError as error:
                LOG.warning('io.cost of disk %s: %s', uuid, error)
                failed = error
        if failed is not None:
            raise failed

    def _root(self) -> str:
        if self._hierarchy is None or self._hierarchy.version != 2:
            raise exception.ContentionError(
                'io.cost takes cgroup v2 with the io controller: boot with it'
            )
        return self._hierarchy.root

    def _save(self, root: str, device: Device) -> None:
        """Save what is there, unless what is there is ours."""
        original = self._originals.load(device.uuid)
        if (
            original is not None
            and original.device == device.name
            and _there(original)
        ):
            return
        values = {
            'number': device.number,
            _MODEL: _restoring(_line(root, _MODEL, device.number)),
            _QOS: _restoring(_line(root, _QOS, device.number)),
        }
        try:
            sequence = block_queue.diskseq(device.name)
        except OSError as error:
            raise exception.ContentionError(
                f'{device.name} is gone: {error.strerror}'
            ) from error
        self._originals.save(
            device.uuid, saved_settings.Original(device.name, sequence, values)
        )

    def _counted(
        self, fit: io_cost_model.Fit, state: types.DiskState
    ) -> float | None:
        """Return the share of a disk's bytes that were of any cgroup.

        It takes a look at each cgroup below the root, so that it is known
        only while it is asked for.
        """
        uuid, number = state.device.uuid, state.device.number
        if not fit.suspicious:
            self._counts.pop(uuid, None)
            return None
        count = _bytes_below(self._root(), number)
        before = self._counts.get(uuid)
        self._counts[uuid] = count
        done = (state.read_bytes + state.write_bytes) * state.seconds
        if before is None or done <= 0:
            return None
        return (count - before) / done

    def _tell(self, uuid: str, fit: io_cost_model.Fit) -> None:
        scales = fit.scales
        slow = min(scales.values()) < _SLOW
        LOG.log(
            logging.WARNING
            if slow and uuid not in self._told
            else logging.INFO,
            'Disk %s is taken to do %.0f %% of the bytes/s that were measured '
            'and %.0f %% of the requests/s.%s',
            uuid, 100 * scales[io_cost_model.BYTES],
            100 * scales[io_cost_model.REQUESTS],
            ' If that lasts, measure it again.' if slow else '',
        )  # fmt: skip
        if slow:
            self._told.add(uuid)


def qos(fit: io_cost_model.Fit) -> dict[str, str]:
    """Return how io.cost is to treat a disk, as the kernel says it."""
    figures = {name: int(one) for name, one in fit.coefficients().items()}
    latency = {
        way: max(_SIZE / figures[way + 'bps'], 1 / figures[way + 'randiops'])
        for way in 'rw'
    }
    rate = f'{100 * fit.rate:.2f}'
    return {
        'enable': '1',
        'ctrl': 'user',
        'rpct': '0.00',
        'rlat': str(_microseconds(latency['r'])),
        'wpct': '0.00',
        'wlat': str(_microseconds(latency['w'])),
        'min': rate,
        'max': rate,
    }


def _microseconds(latency: float) -> int:
    return max(_LEAST_LATENCY, round(_REQUESTS * latency * 1e6))


def _there(original: saved_settings.Original) -> bool:
    """Tell whether the device is the one that was saved."""
    try:
        return block_queue.diskseq(original.device) == original.sequence
    except OSError:
        return False


def _line(root: str, file: str, number: str) -> str:
    """Return what a file says of a device, '' if nothing."""
    for line in _read(root, file).splitlines():
        device, _, rest = line.partition(' ')
        if device == number:
            return rest.strip()
    return ''


def _restoring(line: str) -> str:
    """Return what has the kernel say a line again.

    Figures that it chose itself would be taken for the user's; of a device
    that nobody has configured it says nothing.
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
    """Return the bytes of a device that all cgroups have read and written."""
    total = 0
    with os.scandir(root) as entries:
        names = [entry.name for entry in entries if entry.is_dir()]
    for name in names:
        # a cgroup may go at any time
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
            f'{path}: {error.strerror}: io.cost takes a kernel with '
            'CONFIG_BLK_CGROUP_IOCOST'
        ) from error


def _write(root: str, file: str, text: str) -> None:
    path = os.path.join(root, file)
    try:
        sysfs.change(text.partition(' ')[0], path, text)
    except OSError as error:
        raise exception.ContentionError(
            f'{path}: {text!r} is refused: {error.strerror}'
        ) from error
