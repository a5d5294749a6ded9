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

"""Decides on the I/O weights of servers, and has them in force."""

import collections.abc
import dataclasses

import numpy
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import jobs
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers as controllers_
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

ON = 'on'
OFF = 'off'

# In how many rounds it is asked what the kernel honours on disks, and in how
# many how fast they were measured to be.
_ROUNDS = 5
_MODEL_ROUNDS = 30


@dataclasses.dataclass(frozen=True)
class Decision:
    """What was decided in a round, and what came of it.

    ``controllers`` is what honours weights on each disk, by its UUID;
    ``refusals`` why nothing does, which is an error. ``weights`` are those
    that should be in force, ``errors`` why one is not, and ``changes`` how
    many are others than in the round before.
    """

    directives: policy.Directives
    controllers: collections.abc.Mapping[str, controllers_.Controller]
    refusals: collections.abc.Mapping[str, str]
    weights: collections.abc.Mapping[types.ConsumerDisk, int]
    errors: collections.abc.Mapping[types.ConsumerDisk, str]
    changes: int


class Weighing:
    """Gives weights, and gives back what it has changed.

    :raises DiskPlacerError: an option or a profile is not as it should be.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, hierarchy: cgroups.Hierarchy
    ) -> None:
        self._conf = conf
        self._on = conf.diskplacer_weights.mode == ON
        self._hierarchy = hierarchy
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._generator = policy.Generator(policy.rules(conf))
        self._weights = writer.WeightWriter(conf, hierarchy)
        self._io_cost = io_cost.IOCost(conf, hierarchy)
        self._round = 0
        self._devices: object = None
        self._models: dict[str, io_model.Model | None] = {}
        self._probes: dict[str, probes.Probe[io_model.Model | None]] = {}
        self._controllers: dict[str, controllers_.Controller] = {}
        self._refusals: dict[str, str] = {}
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)
        self._consumers: object = None
        self._parties: dict[str, tiers.Party] = {}
        self._wanted: dict[types.ConsumerDisk, int] = {}

    def weigh(
        self,
        sample: types.Sample,
        seekers: collections.abc.Collection[types.ConsumerDisk],
    ) -> Decision:
        """Decide on a round, and have that in force unless it is a dry run.

        :raises DiskPlacerError: what was there before is not known, or
            cannot be saved.
        """
        if sample.consumers != self._consumers:
            self._parties = tiers.parties(
                sample.consumers.values(), self._conf, self._profiles
            )
            self._consumers = sample.consumers
        if sample.devices != self._devices or self._round % _ROUNDS == 0:
            self._ask(sample.devices)
            self._devices = sample.devices
        self._round += 1
        decided = self._generator.decide(sample, self._parties, seekers)
        before, self._wanted = self._wanted, self._weigh(decided)
        errors: dict[types.ConsumerDisk, str] = {}
        if self._on:
            self._io_cost.adapt_models(sample.disks)
            errors = self._weights.apply(
                self._wanted,
                sample.consumers.values(),
                sample.devices,
                self._controllers,
            )
        return Decision(
            directives=decided,
            controllers=self._controllers,
            refusals=self._refusals,
            weights=self._wanted,
            errors=errors,
            changes=len(self._wanted.items() - before.items()),
        )

    def _weigh(
        self, decided: policy.Directives
    ) -> dict[types.ConsumerDisk, int]:
        """Return the weight of each pair that is to have one."""
        controllers = [
            self._controllers.get(uuid) for _, uuid in decided.pairs
        ]
        lo = numpy.array([one.min_weight if one else 0 for one in controllers])
        top = numpy.array(
            [one.default_weight if one else 0 for one in controllers]
        )
        found = policy.weights(decided.shares, lo, top)
        return {
            pair: weight
            for pair, weight, left_alone in zip(
                decided.pairs,
                found.tolist(),
                decided.exempt.tolist(),
                strict=True,
            )
            if weight and not left_alone
        }

    def _ask(self, devices: collections.abc.Mapping[str, Device]) -> None:
        """Find out what honours weights on disks; enable it if need be."""
        if self._on:
            self._io_cost.disable_except(devices)
        found, refusals = {}, {}
        for uuid, device in devices.items():
            try:
                found[uuid] = self._controller(device)
            except (exception.DiskPlacerError, OSError) as error:
                refusals[uuid] = str(error)
        for uuid, reason in refusals.items():
            self._log.log(
                uuid, 'I/O weights do nothing on disk %s: %s', uuid, reason
            )
        self._log.clear_except(refusals)
        self._controllers, self._refusals = found, refusals

    def _controller(self, device: Device) -> controllers_.Controller:
        choice = self._conf.diskplacer_weights.controller
        name = controllers_.configured_controller(device, choice)
        if name == controllers_.BFQ or self._hierarchy.version == 1:
            if self._on:
                self._io_cost.disable(device.uuid)
        else:
            model = self._model(device.uuid)
            if model is not None and not self._on:
                return controllers_.IO_COST_CONTROLLER
            if model is not None:
                self._io_cost.enable(device, model)
        return controllers_.active_controller(device, self._hierarchy, choice)

    def _model(self, uuid: str) -> io_model.Model | None:
        if uuid not in self._models or self._round % _MODEL_ROUNDS == 0:
            probe = self._probes.setdefault(
                uuid,
                probes.Probe(
                    lambda: io_model.load(
                        self._conf.diskplacer.disk_root, uuid
                    )
                ),
            )
            # of a disk that hangs what was read before is good enough
            if probe.wait(probe.request(), jobs.LATE):
                self._models[uuid] = probe.latest
        return self._models.get(uuid)
