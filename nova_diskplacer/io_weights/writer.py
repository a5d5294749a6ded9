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

"""Sets the I/O weights of consumers on disks, and gives the old ones back.

They are written to the consumers' cgroups and never to what libvirt keeps of
a domain: that would be in its saved images as well, and a domain whose weight
is not to be had any more does not start. What virsh shows as the weight of a
domain is the one by default in its cgroup, for disks that it has no other for.
Where there is no such disk that is made the lowest of its weights.
"""

import collections.abc
import contextlib
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import changes
from nova_diskplacer.io_weights import controllers as honouring
from nova_diskplacer.monitor import types

LOG = logging.getLogger(__name__)

# In how many rounds each weight is compared once to that in force, and in how
# many it is looked once whether the weight that virsh shows has a meaning.
_ROUNDS = 30
_LOOKS = 5

_Errors = dict[types.ConsumerDisk, str]

# By the path of the file with the weight, below the hierarchy's root.
_Targets = dict[str, tuple[types.ConsumerDisk, int]]


class Weights:
    """The weights of consumers on disks.

    What it has changed is undone when it is no longer wanted, also by an
    agent that was started later.

    :param hierarchy: where the consumers' cgroups are.
    :raises DiskError: the kernel does not tell its boot.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        hierarchy: cgroups.Hierarchy,
        sys: str = sysfs.SYS,
    ) -> None:
        self._hierarchy = hierarchy
        self._sys = sys
        self._changes = changes.Changes(
            os.path.join(conf.diskplacer_agent.state_dir, 'weights'),
            hierarchy,
            sys,
        )
        self._round = 0
        # of the weight by default that virsh shows; None: it has a meaning
        self._shown: str | None = None
        # what was logged, by the path or disk that it is about
        self._said: dict[str, set[str]] = {}

    def apply(
        self,
        wanted: collections.abc.Mapping[types.ConsumerDisk, int],
        consumers: collections.abc.Iterable[types.Consumer],
        devices: collections.abc.Mapping[str, Device],
        controllers: collections.abc.Mapping[str, honouring.Controller],
    ) -> dict[types.ConsumerDisk, str]:
        """Have these weights in force and no others; repeatable.

        A consumer that has gone is forgotten; one for which no weight is
        wanted gets back what it had. What somebody else changes is put back.

        :param wanted: a weight between the controller's ``lo`` and ``top``
            for each pair.
        :returns: why pairs do not have their weight.
        :raises DiskError: what was there before is not known.
        """
        errors: _Errors = {}
        consumers = list(consumers)
        targets = _targets(wanted, consumers, devices, controllers, errors)
        lowest = _lowest(wanted, controllers)
        for uuid, of_disk in targets.items():
            with self._spoiling(uuid, of_disk, errors):
                self._begin(devices[uuid], of_disk, lowest.keys(), errors)
        if lowest and self._round % _LOOKS == 0:
            self._shown = self._unused(consumers, devices, controllers)
        self._round += 1
        rest = changes.REST
        if self._shown is not None:
            spoilt = {key for key, _ in errors}
            shown = {
                f'{one.cgroup}/{self._shown}': (
                    (one.key, rest.uuid),
                    lowest[one.key],
                )
                for one in consumers
                if one.domain and one.cgroup and one.key in lowest
                if one.key not in spoilt
            }
            targets[rest.uuid] = shown
            with self._spoiling(rest.uuid, shown, errors):
                self._begin(rest, shown, lowest.keys(), errors)
        self._settle(targets, errors)
        return {
            pair: error
            for pair, error in errors.items()
            if pair[1] != rest.uuid
        }

    def restore(self) -> None:
        """Give everything back that was changed, also by an agent before.

        :raises DiskPlacerError: that is not so for some disk; says why.
        """
        failed = []
        for uuid in self._changes.uuids():
            try:
                self._changes.undo(uuid)
            except (exception.DiskPlacerError, OSError) as error:
                failed.append(f'disk {uuid}: {error}')
        if failed:
            raise exception.ContentionError(
                f'weights are not what they were: {"; ".join(failed)}'
            )

    @contextlib.contextmanager
    def _spoiling(
        self, uuid: str, targets: _Targets, errors: _Errors
    ) -> collections.abc.Iterator[None]:
        """Have what fails on a disk spoil the work on no other."""
        try:
            yield
        except (exception.DiskPlacerError, OSError) as error:
            for pair, _ in targets.values():
                errors.setdefault(pair, str(error))
            self._say(uuid, f'Weights {_where(uuid)} stay: {error}')

    def _begin(
        self,
        device: Device,
        targets: _Targets,
        lowered: collections.abc.Collection[str],
        errors: _Errors,
    ) -> None:
        """Make ready for changes of weights on a disk.

        :param lowered: consumers with a weight below the kernel's default
            anywhere; others have theirs without it being set.
        """
        self._changes.look(device)
        begun = self._changes.begun(device.uuid)
        new = [
            path
            for path, (pair, _) in targets.items()
            if path not in begun and pair[0] in lowered
        ]
        for path in self._changes.begin(device.uuid, new):
            whole, (pair, _) = self._hierarchy.path(path), targets[path]
            if os.path.isdir(os.path.dirname(whole)):
                errors[pair] = (
                    f'{whole} is not there: the kernel lacks it '
                    '(CONFIG_BFQ_GROUP_IOSCHED), or a cgroup above it lacks '
                    '+io in cgroup.subtree_control'
                )
                self._say(path, errors[pair])

    def _settle(self, targets: dict[str, _Targets], errors: _Errors) -> None:
        """Have the weights that were begun, and give back all others."""
        for uuid in self._changes.uuids():
            of_disk = targets.get(uuid, {})
            with self._spoiling(uuid, of_disk, errors):
                if of_disk:
                    self._bring(uuid, of_disk, errors)
                else:
                    self._changes.undo(uuid)
        about = targets.keys() | set().union(*targets.values())
        for gone in self._said.keys() - about:
            del self._said[gone]

    def _bring(self, uuid: str, targets: _Targets, errors: _Errors) -> None:
        """Have the weights on one disk, and give back those not wanted."""
        begun = self._changes.begun(uuid)
        for path in begun & targets.keys():
            pair, weight = targets[path]
            if self._changes.written(uuid, path) == weight and not self._lost(
                uuid, path, pair, weight
            ):
                continue
            try:
                self._changes.put(uuid, path, weight)
            except FileNotFoundError:
                # it has just gone
                pass
            except OSError as error:
                errors[pair] = f'{path} does not become {weight}: {error}'
                self._say(path, errors[pair])
        self._changes.give_back(uuid, begun - targets.keys())

    def _lost(
        self, uuid: str, path: str, pair: types.ConsumerDisk, weight: int
    ) -> bool:
        """Return whether a weight is in force no more; looks now and then."""
        if (hash(path) + self._round) % _ROUNDS:
            return False
        try:
            now = self._changes.in_force(uuid, path)
        except FileNotFoundError:
            return False
        if now == str(weight):
            return False
        self._say(
            path,
            f'The weight of {pair[0]} {_where(pair[1])} is not what it was '
            'set to: whatever else sets it, the agent puts it back',
        )
        return True

    def _unused(
        self,
        consumers: collections.abc.Iterable[types.Consumer],
        devices: collections.abc.Mapping[str, Device],
        controllers: collections.abc.Mapping[str, honouring.Controller],
    ) -> str | None:
        """Return the file of the weight that virsh shows of a domain.

        None if it has a meaning for a device whose weights are not set here.
        """
        homes = (one.cgroup for one in consumers if one.domain and one.cgroup)
        home = next(homes, None)
        if home is None:
            return None
        for name in honouring.shown(self._hierarchy):
            if os.path.exists(self._hierarchy.path(home, name)):
                break
        else:
            return None
        ours = {
            devices[uuid].number
            for uuid, controller in controllers.items()
            if controller.file == name and uuid in devices
        }
        try:
            found = honouring.devices(name, self._hierarchy, self._sys)
        except (exception.ContentionError, OSError):
            # a device has gone just now
            return None
        return None if found - ours else name

    def _say(self, about: str, message: str) -> None:
        said = self._said.setdefault(about, set())
        if message not in said:
            said.add(message)
            LOG.warning('%s.', message)


def _where(uuid: str) -> str:
    if uuid == changes.REST.uuid:
        return 'by default, which virsh shows,'
    return f'on disk {uuid}'


def _targets(
    wanted: collections.abc.Mapping[types.ConsumerDisk, int],
    consumers: collections.abc.Iterable[types.Consumer],
    devices: collections.abc.Mapping[str, Device],
    controllers: collections.abc.Mapping[str, honouring.Controller],
    errors: dict[types.ConsumerDisk, str],
) -> dict[str, _Targets]:
    """Return the weights by disk and file; who has no cgroup has none."""
    homes = {consumer.key: consumer.cgroup for consumer in consumers}
    found: dict[str, _Targets] = {}
    for pair, weight in wanted.items():
        key, uuid = pair
        home = homes.get(key)
        if not home or uuid not in devices:
            continue
        controller = controllers.get(uuid)
        if controller is None:
            errors[pair] = f'nothing honours weights on disk {uuid}'
            continue
        of_disk = found.setdefault(uuid, {})
        of_disk[f'{home}/{controller.file}'] = (pair, weight)
    return found


def _lowest(
    wanted: collections.abc.Mapping[types.ConsumerDisk, int],
    controllers: collections.abc.Mapping[str, honouring.Controller],
) -> dict[str, int]:
    """Return the lowest weight of each consumer that has one below top."""
    found: dict[str, int] = {}
    for (key, uuid), weight in wanted.items():
        controller = controllers.get(uuid)
        if controller is not None and weight < controller.top:
            found[key] = min(weight, found.get(key, weight))
    return found
