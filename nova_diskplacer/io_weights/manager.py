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

"""Decides on I/O weights in each interval, and applies them."""

import collections
import collections.abc
import dataclasses

import numpy
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.io_weights import controller_finder
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.io_weights import turns
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

ON = 'on'
DRY_RUN = 'dry_run'
OFF = 'off'

# Intervals between two searches for controllers.
_CONTROLLER_INTERVALS = 5


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision of an interval.

    ``controllers`` are the active controllers of disks, by UUID; ``refusals``
    are the reasons why a disk has none, and ``left_out`` why one has none on
    purpose. ``weights`` are those wanted, ``errors`` the reasons why one is
    not in force. ``changes`` is the number of weights that differ from the
    last interval. ``trials`` are those of hard disks with BFQ whose active
    servers differ in weight, by UUID.
    """

    shares: policy.Shares
    controllers: collections.abc.Mapping[str, controllers.Controller]
    refusals: collections.abc.Mapping[str, str]
    left_out: collections.abc.Mapping[str, str]
    weights: collections.abc.Mapping[types.ConsumerDisk, int]
    errors: collections.abc.Mapping[types.ConsumerDisk, str]
    changes: int
    trials: collections.abc.Mapping[str, turns.Trial] = dataclasses.field(
        default_factory=dict
    )


class WeightManager:
    """Decides on weights and applies them; in a dry run it only decides.

    A dry run logs what it would change first of each server and disk.

    :raises DiskPlacerError: an option or a profile is invalid.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy
    ) -> None:
        self._conf = conf
        self._on = conf.diskplacer_weights.mode == ON
        self._hierarchy = hierarchy
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._share_policy = policy.SharePolicy(conf)
        self._writer = writer.WeightWriter(conf, hierarchy)
        self._io_cost = io_cost.IOCost(conf, hierarchy)
        self._bfq_settings = bfq_settings.BFQSettings(conf)
        self._interval = 0
        self._devices: collections.abc.Mapping[str, Device] = {}
        self._finder = controller_finder.ControllerFinder(
            conf, hierarchy, self._io_cost, self._profiles, self._on
        )
        self._found = controller_finder.Controllers({}, {}, {})
        self._consumers: collections.abc.Mapping[str, types.Consumer] = {}
        self._policies: dict[str, tiers.ConsumerPolicy] = {}
        self._weights: dict[types.ConsumerDisk, int] = {}
        # pairs that a dry run has logged
        self._lowered: set[types.ConsumerDisk] = set()
        # what _bytes_of_active found in the last interval
        self._moved: dict[str, dict[str, int]] = {}

    def apply(
        self,
        sample: types.Sample,
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Decision:
        """Decide on the weights after an interval, and apply them.

        :param seekers: pairs that seek excessively.
        :raises DiskPlacerError: saved settings cannot be read or written.
        """
        if (
            sample.devices != self._devices
            or sample.consumers != self._consumers
            or self._interval % _CONTROLLER_INTERVALS == 0
        ):
            self._found = self._finder.find(sample)
            self._devices = sample.devices
        if sample.consumers != self._consumers:
            self._policies = tiers.consumer_policies(
                sample.consumers.values(), self._conf, self._profiles
            )
            self._consumers = sample.consumers
        self._interval += 1
        shares = self._share_policy.compute(
            sample, self._used_bytes(sample), self._policies, seekers
        )
        rows = zip(
            shares.pairs,
            policy.weights(shares.shares).tolist(),
            shares.exempt.tolist(),
            strict=True,
        )
        before = self._weights
        self._weights = {
            pair: weight
            for pair, weight, exempt in rows
            if pair[1] in self._found.active and not exempt
        }
        errors: dict[types.ConsumerDisk, str] = {}
        trials: dict[str, turns.Trial] = {}
        if self._on:
            self._io_cost.adapt_models(sample.disks)
            errors = self._writer.apply(
                self._weights,
                sample.consumers.values(),
                sample.devices,
                self._found.active,
            )
            loads, below_limit = self._contended_by_bfq(sample, errors)
            trials = self._bfq_settings.apply(
                loads, sample.seconds, below_limit
            )
        else:
            self._log_dry_run()
        return Decision(
            shares=shares,
            controllers=self._found.active,
            refusals=self._found.refusals,
            left_out=self._found.left_out,
            weights=self._weights,
            errors=errors,
            changes=len(self._weights.items() - before.items()),
            trials=trials,
        )

    def _log_dry_run(self) -> None:
        """Log each server on a disk once: weights may change every second."""
        lowered = {
            pair
            for pair, weight in self._weights.items()
            if weight < controllers.DEFAULT_WEIGHT
        }
        for key, uuid in sorted(lowered - self._lowered):
            LOG.info(
                'Dry run: the I/O weight of %s on disk %s would be changed; '
                'diskplacer-manage top shows the new one.',
                key,
                uuid,
            )
        self._lowered = (self._lowered | lowered) & self._weights.keys()

    def _contended_by_bfq(
        self,
        sample: types.Sample,
        errors: collections.abc.Container[types.ConsumerDisk],
    ) -> tuple[dict[Device, disk_trials.Load], set[str]]:
        """Return the loads of disks at their limit, and the other disks.

        They are the hard disks with BFQ whose active servers differ in weight.
        """
        # without weights its settings would help nobody
        in_force = {
            pair: weight
            for pair, weight in self._weights.items()
            if pair not in errors
        }
        moved = _bytes_of_active(sample)
        before, self._moved = self._moved, moved
        contended = bfq_settings.find_contended(moved, in_force)
        loads = {}
        below_limit = set()
        for uuid, weights in contended.items():
            state = sample.disks.get(uuid)
            if (
                state is None
                or self._found.active.get(uuid) != controllers.BFQ_CONTROLLER
                or not sample.devices[uuid].rotational
            ):
                continue
            throughput = state.read_bytes + state.write_bytes
            if not turns.is_counted(
                throughput,
                state.busy,
                state.queue,
                self._bfq_settings.has_trial(uuid),
            ):
                below_limit.add(uuid)
            else:
                loads[sample.devices[uuid]] = disk_trials.Load(
                    lowered=disk_trials.count_lowered(weights.values()),
                    throughput=throughput,
                    servers=frozenset(weights),
                    is_light=disk_trials.is_light(
                        weights, moved[uuid], before.get(uuid, {})
                    ),
                )
        return loads, below_limit

    def _used_bytes(self, sample: types.Sample) -> types.Floats:
        """Return the use of disks that counts, in bytes, (R,).

        Where io.cost runs, it is the device time that io.cost charged, as the
        bytes that the disk reads in such a time.
        """
        speeds = self._io_cost.speeds()
        of_disks = [speeds.get(uuid, 0.0) for uuid in sample.pairs.disks]
        speed = numpy.array(of_disks)[sample.pairs.disk_rows]
        moved = sample.read_bytes + sample.write_bytes
        return numpy.where(speed > 0, sample.charged_seconds * speed, moved)


def _bytes_of_active(sample: types.Sample) -> dict[str, dict[str, int]]:
    """Return the bytes of active servers, by the UUID of the disk and by key.

    They had requests in the interval.
    """
    found: dict[str, dict[str, int]] = collections.defaultdict(dict)
    moved = sample.read_bytes + sample.write_bytes
    rows = zip(sample.pairs, moved.tolist(), sample.idle.tolist(), strict=True)
    for (key, uuid), count, is_idle in rows:
        if not is_idle:
            found[uuid][key] = count
    return found
