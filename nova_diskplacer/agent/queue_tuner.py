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

"""Tunes the request queues of disks for the profiles of their servers."""

import collections.abc
import errno
import functools
import itertools
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once
from nova_diskplacer.host import saved_settings
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy

LOG = logging.getLogger(__name__)

PROFILE = 'diskplacer:profile'

ON = 'on'
DRY_RUN = 'dry_run'
OFF = 'off'

# Passes over all settings: writing one may change others.
_PASSES = 3


class QueueTuner:
    """Tunes the queues of this host's disks, and restores them.

    A queue is restored when the last server with a profile for it has left
    the disk, also by an agent that was started later. While I/O weights are
    on, hard disks without servers have the scheduler that weights need, unless
    the host cannot weigh at all. A queue is left alone while its disk is being
    measured, and restored after a killed measurement. The merging of requests
    is left alone while weights have changed it.

    :raises DiskPlacerError: a profile is invalid.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._mode: str = conf.diskplacer_agent.queue_tuning
        self._controller = _controller(conf)
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._saved = saved_settings.SavedSettings(
            os.path.join(conf.diskplacer_agent.state_dir, 'queues'),
            self._write_back,
        )
        self._of_weights = bfq_settings.saved_settings_of(
            conf.diskplacer_agent.state_dir
        )
        self._measured = plain_queue.saved_settings_of(
            conf.diskplacer_agent.state_dir
        )
        # by device and its sequence: the result of each (setting, value)
        self._results: dict[
            tuple[str, str], dict[tuple[str, str], str | None]
        ] = {}
        self._tried_modules: set[str] = set()
        self._log = log_once.ChangeLogger(LOG)

    def apply(
        self,
        servers: collections.abc.Iterable[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Tune the queue of every disk; repeatable.

        A disk that cannot be tuned is logged once and affects no other.

        :raises DiskError: the saved settings cannot be listed.
        """
        running = [server for server in servers if server.running]
        by_disk = usage.servers_by_disk(running, disks)
        tasks = {
            # including forgotten disks
            uuid: functools.partial(self._saved.restore, uuid)
            for uuid in {*self._saved.uuids(), *self._measured.uuids()}
        } | {
            disk.uuid: functools.partial(
                self._tune_disk, disk, by_disk.get(disk.uuid, [])
            )
            for disk in disks
        }
        for uuid, task in tasks.items():
            try:
                with plain_queue.lock(uuid, wait=False):
                    self._measured.restore(uuid)
                    task()
            except BlockingIOError:
                # it is being measured
                continue
            except (exception.DiskPlacerError, OSError) as error:
                self._log.log(
                    uuid,
                    'The queue of disk %s is not changed: %s',
                    uuid,
                    error,
                )
            else:
                self._log.clear(uuid)
        served = {one.uuid for users in by_disk.values() for one in users}
        self._log.clear_except(served | tasks.keys())

    def _tune_disk(
        self, disk: discover.Disk, servers: list[libvirt_servers.Server]
    ) -> None:
        if disk.health == discover.HUNG:
            # a change of its queue would hang
            return
        if self._mode == OFF or not (servers or self._controller):
            self._saved.restore(disk.uuid)
            return
        if disk.health == discover.MISSING:
            # it may return unchanged
            return
        profiles = self._profiles_of(servers)
        decision = queue_policy.decide(profiles, disk.medium, self._controller)
        target = decision.queue
        if target == definitions.Queue():
            self._saved.restore(disk.uuid)
        else:
            names = [profile.name for profile in profiles]
            if decision.for_weights:
                names.append('I/O weights')
            self._tune(
                disk, target, f'disk {disk.uuid}, for {", ".join(names)}'
            )

    def _profiles_of(
        self, servers: list[libvirt_servers.Server]
    ) -> list[definitions.Profile]:
        of_disk = {}
        for server in servers:
            name = server.extra_specs.get(PROFILE)
            if name is None:
                self._log.clear(server.uuid)
                continue
            try:
                profile = self._profiles.find(name)
            except exception.ProfileError as error:
                self._log.log(
                    server.uuid,
                    'Queues are not tuned for server %s: %s',
                    server.uuid,
                    error,
                )
                continue
            self._log.clear(server.uuid)
            of_disk[profile.name] = profile
        return [of_disk[name] for name in sorted(of_disk)]

    def _tune(
        self, disk: discover.Disk, target: definitions.Queue, reason: str
    ) -> None:
        try:
            device = block_queue.exclusive_device(disk.device)
        except exception.DiskError:
            # another device may share the queue now
            self._saved.restore(disk.uuid)
            raise
        queue = block_queue.read(device)
        # what weights have changed comes back by itself
        lent = (
            (bfq_settings.NOMERGES,)
            if disk.uuid in self._of_weights.uuids()
            else ()
        )
        originals = self._originals(disk.uuid, queue, lent)
        if self._mode != DRY_RUN:
            queue = self._load_modules(queue, target)
        values = queue_policy.target_settings(
            target, originals, queue.schedulers, queue.depth
        )
        for name in lent:
            values.pop(name, None)
        self._change(queue, values, reason)

    def _originals(
        self,
        uuid: str,
        queue: block_queue.Queue,
        lent: collections.abc.Collection[str],
    ) -> dict[str, str]:
        """Return the original settings of a queue, and save new ones.

        :param lent: settings that are not original, which are left out.
        """
        saved = self._saved.get_originals(uuid, queue.device, queue.sequence)
        # they were left out before
        names = queue.values if saved is None else (bfq_settings.NOMERGES,)
        originals = {
            name: queue.values[name]
            for name in names
            if name in queue.values and name not in lent
        } | (saved or {})
        if originals != saved and self._mode != DRY_RUN:
            self._saved.save(
                uuid,
                saved_settings.DeviceSettings(
                    queue.device, queue.sequence, originals
                ),
            )
        return originals

    def _write_back(self, saved: saved_settings.DeviceSettings) -> bool:
        queue = block_queue.read(saved.device)
        return self._change(queue, saved.values, 'the original value')

    def _load_modules(
        self, queue: block_queue.Queue, target: definitions.Queue
    ) -> block_queue.Queue:
        """Try each scheduler that may be a module once.

        The kernel loads it when it is selected.
        """
        if block_queue.SCHEDULER not in queue.values:
            return queue
        for name in itertools.takewhile(
            lambda name: name not in queue.schedulers, target.schedulers
        ):
            if name in self._tried_modules:
                continue
            try:
                block_queue.write(queue.device, block_queue.SCHEDULER, name)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    # it tells nothing about the kernel
                    raise
                LOG.info(
                    'The kernel has no I/O scheduler %s (%s).', name, error
                )
                self._tried_modules.add(name)
            else:
                self._tried_modules.add(name)
                break
        return block_queue.read(queue.device)

    def _change(
        self, queue: block_queue.Queue, target: block_queue.Values, reason: str
    ) -> bool:
        """Change the settings of a queue; returns whether all are as wanted.

        A value that the kernel refuses as invalid, or rounds, is not written
        again until the setting or the wanted value changes.

        :raises DiskError: a value is refused for another reason, which may
            pass; the others are written.
        :raises TimeoutError: a write hangs.
        """
        key = (queue.device, queue.sequence)
        results = self._results.setdefault(key, {})
        failed: dict[str, str] = {}
        for _ in range(_PASSES):
            changed = False
            for name in block_queue.SETTINGS:
                if name not in target or name not in queue.values:
                    continue
                now, value = queue.values[name], target[name]
                if now == value or results.get((name, value)) == now:
                    continue
                if name in failed:
                    continue
                if self._mode == DRY_RUN:
                    results[name, value] = now
                    LOG.info(
                        'Dry run: %s of %s would become %s, is %s (%s).',
                        name, queue.device, value, now, reason,
                    )  # fmt: skip
                    continue
                changed = True
                try:
                    queue = self._write(queue, name, value, reason)
                except TimeoutError:
                    # the write continues and has no result yet
                    raise
                except OSError as error:
                    failed[name] = (
                        f'{name} of {queue.device} stays {now}, {value} is '
                        f'refused: {error.strerror}'
                    )
                    continue
                if name == block_queue.SCHEDULER:
                    # another scheduler may accept refused values
                    results.clear()
                results[name, value] = queue.values.get(name)
            if not changed:
                break
        if failed:
            raise exception.DiskError('; '.join(failed.values()))
        return all(
            queue.values.get(name, value) == value
            for name, value in target.items()
        )

    def _write(
        self, queue: block_queue.Queue, name: str, value: str, reason: str
    ) -> block_queue.Queue:
        before = queue.values[name]
        try:
            block_queue.write(queue.device, name, value)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # for example, more requests than the device can queue
            LOG.info(
                '%s of %s stays %s, %s is refused: %s (%s).',
                name, queue.device, before, value, error.strerror, reason,
            )  # fmt: skip
            return queue
        queue = block_queue.read(queue.device)
        LOG.info(
            '%s of %s is %s now, was %s (%s).',
            name, queue.device, queue.values.get(name), before, reason,
        )  # fmt: skip
        return queue


def _controller(conf: cfg.ConfigOpts) -> str | None:
    """Return ``[diskplacer_weights] controller``, None without weights."""
    weights = conf.diskplacer_weights
    if weights.mode != ON:
        return None
    try:
        cgroups.hierarchy()
    except exception.ContentionError:
        # the I/O loop logs it
        return None
    controller: str = weights.controller
    return controller
