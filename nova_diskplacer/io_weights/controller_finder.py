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

"""Finds the controllers of disks, and enables io.cost where it is one."""

import collections
import collections.abc
import dataclasses
import functools

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host import probes
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import in_use
from nova_diskplacer.profiles import queue_policy

LOG = logging.getLogger(__name__)

# Searches for controllers between two readings of measured models.
_MODEL_SEARCHES = 6

# Searches in which the agent may not have set a disk's scheduler yet: there is
# one for each server that comes, too.
_PATIENCE = 10


class _LeftOutError(Exception):
    """A disk has no weights on purpose; the message is the reason."""


@dataclasses.dataclass(frozen=True)
class Controllers:
    """The controllers that honour weights on disks, by the disk's UUID.

    ``active`` are the controllers, ``refusals`` the reasons why a disk has
    none, and ``left_out`` the reasons why one has none on purpose, which is
    no error.
    """

    active: collections.abc.Mapping[str, controllers.Controller]
    refusals: collections.abc.Mapping[str, str]
    left_out: collections.abc.Mapping[str, str]


class ControllerFinder:
    """Finds the controllers of disks; in a dry run it enables none.

    :param is_on: whether weights are on, not tried in a dry run.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hierarchy: cgroups.Hierarchy,
        io_cost_: io_cost.IOCost,
        profiles: collections.abc.Mapping[str, definitions.Profile],
        is_on: bool,
    ) -> None:
        self._conf = conf
        self._choice: str = conf.diskplacer_weights.controller
        self._sets_schedulers = conf.diskplacer_agent.queue_tuning == 'on'
        self._hierarchy = hierarchy
        self._io_cost = io_cost_
        self._profiles = profiles
        self._can_leave_out = self._sets_schedulers and any(
            queue_policy.reasons_left_out(profiles.values(), self._choice)
        )
        self._on = is_on
        self._measured = plain_queue.saved_settings_of(
            conf.diskplacer_agent.state_dir
        )
        self._active: dict[str, controllers.Controller] = {}
        self._has_bfq: dict[str, bool] = {}
        self._searches = 0
        self._models: dict[str, io_model.Model | None] = {}
        self._probes: dict[str, probes.Probe[io_model.Model | None]] = {}
        # searches for which a disk has not had the scheduler that it needs
        self._waiting: collections.Counter[str] = collections.Counter()
        self._log = log_once.ChangeLogger(LOG, logging.ERROR)
        self._restore_log = log_once.ChangeLogger(LOG)
        self._left_out_log = log_once.ChangeLogger(LOG, logging.INFO)
        self._advice_log = log_once.ChangeLogger(LOG)
        self._dry_run_log = log_once.ChangeLogger(LOG, logging.INFO)

    def find(self, sample: types.Sample) -> Controllers:
        """Find the controllers of all disks."""
        if self._on:
            self._restore_others(sample.devices)
        active: dict[str, controllers.Controller] = {}
        refusals, left_out = {}, {}
        profiles: collections.abc.Mapping[str, list[definitions.Profile]] = {}
        if self._can_leave_out:
            # as for the scheduler: the kernel's counters keep servers whose
            # vdisks have left the disk
            profiles = in_use.by_disk(
                sample.servers, sample.prepared_disks, self._profiles
            )
        for uuid, device in sample.devices.items():
            try:
                active[uuid] = self._controller(device, profiles.get(uuid, []))
            except _LeftOutError as reason:
                left_out[uuid] = str(reason)
            except TimeoutError as error:
                # a moment's wait for its queue changes nothing
                if uuid in self._active:
                    active[uuid] = self._active[uuid]
                else:
                    refusals[uuid] = str(error)
            except (exception.DiskPlacerError, OSError) as error:
                refusals[uuid] = str(error)
        self._active = active
        self._searches += 1
        found = Controllers(active, refusals, left_out)
        self._log_findings(found, sample.devices)
        return found

    def _restore_others(self, devices: collections.abc.Container[str]) -> None:
        """Restore io.cost of all other disks; one that hangs harms none."""
        failure = ''
        try:
            self._io_cost.disable_except(devices)
        except exception.DiskError as error:
            failure = str(error)
        if failure:
            self._restore_log.log('', 'io.cost: %s', failure)
        else:
            self._restore_log.clear('')

    def _controller(
        self, device: Device, profiles: list[definitions.Profile]
    ) -> controllers.Controller:
        name, is_known = '', True
        try:
            if self._can_leave_out:
                self._check_profiles(device, profiles)
            name = controllers.configured_controller(device, self._choice)
            if name == controllers.BFQ and self._will_have_bfq(device):
                return controllers.BFQ_CONTROLLER
        except TimeoutError:
            is_known = False
            raise
        finally:
            if self._on and is_known and name != controllers.IO_COST:
                self._io_cost.disable(device.uuid)
        if name == controllers.IO_COST:
            model = self._measured_model(device.uuid)
            if model is not None and not self._on:
                self._dry_run_log.log(
                    device.uuid,
                    'Dry run: io.cost would be enabled on disk %s.',
                    device.uuid,
                )
                return controllers.IO_COST_CONTROLLER
            if model is not None:
                self._io_cost.enable(device, model)
        return controllers.active_controller(
            device, self._hierarchy, self._choice
        )

    def _check_profiles(
        self, device: Device, profiles: list[definitions.Profile]
    ) -> None:
        decision = queue_policy.decide(
            profiles, controllers.medium_of(device), self._choice
        )
        if decision.left_out:
            raise _LeftOutError(decision.left_out)

    def _will_have_bfq(self, device: Device) -> bool:
        """Return whether a dry run counts on BFQ that is not there.

        :raises _LeftOutError: the agent has still to set it, or it is back
            after a measurement.
        """
        if controllers.scheduler_of(device) == controllers.BFQ:
            del self._waiting[device.uuid]
            return False
        if device.uuid in self._measured.uuids():
            raise _LeftOutError('it is being measured')
        if not self._sets_schedulers:
            return False
        if not self._on:
            if not self._kernel_has_bfq(device):
                return False
            self._dry_run_log.log(
                device.uuid,
                'Dry run: bfq would be the I/O scheduler of disk %s.',
                device.uuid,
            )
            return True
        self._waiting[device.uuid] += 1
        if self._waiting[device.uuid] <= _PATIENCE:
            raise _LeftOutError('the agent sets bfq as its I/O scheduler')
        return False

    def _kernel_has_bfq(self, device: Device) -> bool:
        # what looks for the module reads a long file
        if device.uuid not in self._has_bfq:
            found = controllers.kernel_has_bfq(device)
            self._has_bfq[device.uuid] = found
        return self._has_bfq[device.uuid]

    def _measured_model(self, uuid: str) -> io_model.Model | None:
        if uuid not in self._models or self._searches % _MODEL_SEARCHES == 0:
            load = functools.partial(
                io_model.load, self._conf.diskplacer.disk_root, uuid
            )
            probe = self._probes.setdefault(uuid, probes.Probe(load))
            # a hung disk keeps the model loaded before
            if probe.wait(probe.request(), probes.TIMEOUT):
                self._models[uuid] = probe.latest
        return self._models.get(uuid)

    def _log_findings(
        self,
        found: Controllers,
        devices: collections.abc.Mapping[str, Device],
    ) -> None:
        for uuid, reason in found.refusals.items():
            self._log.log(
                uuid,
                'I/O weights have no effect on disk %s: %s',
                uuid,
                reason,
            )
        self._log.clear_except(found.refusals)
        for uuid, reason in found.left_out.items():
            self._left_out_log.log(
                uuid, 'Disk %s has no I/O weights: %s', uuid, reason
            )
        self._left_out_log.clear_except(found.left_out)
        for uuid, controller in found.active.items():
            advice = controllers.advice(devices[uuid], controller.name)
            if advice:
                self._advice_log.log(uuid, 'Disk %s: %s', uuid, advice)
        self._dry_run_log.clear_except(found.active)
