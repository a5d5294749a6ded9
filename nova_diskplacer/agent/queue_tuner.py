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

"""Sets the queues of disks as the profiles of the servers on them want."""

import collections.abc
import errno
import functools
import os

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.agent import queue_policy
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import saved_settings
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

PROFILE = 'diskplacer:profile'

ON = 'on'
DRY_RUN = 'dry_run'
OFF = 'off'

# A setting may change others when it is written.
_PASSES = 3


class Tuner:
    """Keeps the queues of this host's disks, and nothing else, tuned.

    What it has changed is undone when the last server that wanted it has
    left the disk, also by an agent that was started later.

    :raises DiskPlacerError: a profile is not as it should be.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._mode: str = conf.diskplacer_agent.queue_tuning
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._originals = saved_settings.Originals(
            os.path.join(conf.diskplacer_agent.state_dir, 'queues'),
            saved_settings.boot_id(),
        )
        # by device and its number: (setting, value) and what came of it
        self._outcomes: dict[
            tuple[str, str], dict[tuple[str, str], str | None]
        ] = {}
        self._tried: set[str] = set()
        self._said: dict[str, str] = {}

    def keep(
        self,
        servers: collections.abc.Iterable[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Have every disk's queue as it should be; repeatable.

        A disk that cannot be tuned is logged once and spoils no other.

        :raises DiskError: the saved originals cannot be read.
        """
        running = [server for server in servers if server.running]
        by_disk = usage.servers_by_disk(running, disks)
        saved = set(self._originals.uuids())
        for disk in disks:
            saved.discard(disk.uuid)
            self._attempt(
                disk.uuid,
                functools.partial(
                    self._keep, disk, by_disk.get(disk.uuid, [])
                ),
            )
        for uuid in sorted(saved):
            # the disk was forgotten
            self._attempt(uuid, functools.partial(self._restore, uuid))

    def _attempt(
        self, uuid: str, work: collections.abc.Callable[[], None]
    ) -> None:
        try:
            work()
        except (exception.DiskPlacerError, OSError) as error:
            self._say(uuid, f'The queue of disk {uuid} is left alone: {error}')
        else:
            self._said.pop(uuid, None)

    def _say(self, key: str, message: str) -> None:
        if self._said.get(key) != message:
            self._said[key] = message
            LOG.warning(message)

    def _keep(
        self, disk: discover.Disk, servers: list[libvirt_servers.Server]
    ) -> None:
        if disk.health == discover.HUNG:
            # a change of its queue would wait for it
            return
        if not servers or self._mode == OFF:
            self._restore(disk.uuid)
            return
        if disk.health == discover.MISSING:
            # servers hold on to it: it may come back as it was
            return
        profiles = self._wanted_by(servers)
        wanted = queue_policy.merge(profiles, disk.medium)
        if wanted == catalogue.Queue():
            self._restore(disk.uuid)
        else:
            names = ', '.join(profile.name for profile in profiles)
            self._tune(disk, wanted, f'disk {disk.uuid}, for {names}')

    def _wanted_by(
        self, servers: list[libvirt_servers.Server]
    ) -> list[catalogue.Profile]:
        found = {}
        for server in servers:
            name = server.extra_specs.get(PROFILE)
            if name is None:
                continue
            try:
                profile = self._profiles.find(name)
            except exception.ProfileError as error:
                self._say(
                    server.uuid,
                    f'Server {server.uuid} is not tuned for: {error}',
                )
                continue
            found[profile.name] = profile
        return [found[name] for name in sorted(found)]

    def _tune(
        self,
        disk: discover.Disk,
        wanted: catalogue.Queue,
        reason: str,
    ) -> None:
        try:
            device = block_queue.exclusive_device(disk.device)
        except exception.DiskError:
            # others may have come to share it
            self._restore(disk.uuid)
            raise
        seen = block_queue.read(device)
        original = self._saved(disk.uuid, seen)
        if original is None:
            original = saved_settings.Original(
                device, seen.sequence, seen.values
            )
            if self._mode != DRY_RUN:
                # nothing is changed before it is there
                self._originals.save(disk.uuid, original)
        if self._mode != DRY_RUN:
            seen = self._load_modules(seen, wanted)
        values = queue_policy.target(
            wanted, original.values, seen.schedulers, seen.depth
        )
        self._bring(seen, values, reason)

    def _restore(self, uuid: str) -> None:
        """Give a queue its original values back, if they were changed."""
        original = self._originals.load(uuid)
        if original is None:
            if self._mode != DRY_RUN:
                # saved before the machine was booted, if at all
                self._originals.forget(uuid)
            return
        try:
            seen = block_queue.read(original.device)
        except OSError:
            seen = None
        gone = seen is None or seen.sequence != original.sequence
        if seen is not None and not gone:
            wanted = {
                name: value
                for name, value in original.values.items()
                if name in seen.values
            }
            if not self._bring(seen, wanted, f'disk {uuid}, as it was'):
                return
        if self._mode != DRY_RUN:
            self._originals.forget(uuid)

    def _saved(
        self, uuid: str, seen: block_queue.Queue
    ) -> saved_settings.Original | None:
        """Return what the queue was, None if it has not been changed."""
        original = self._originals.load(uuid)
        if original is None or (original.device, original.sequence) != (
            seen.device,
            seen.sequence,
        ):
            # in another slot, or taken out and put in again, a disk has a
            # queue that nobody has changed
            return None
        return original

    def _load_modules(
        self, seen: block_queue.Queue, wanted: catalogue.Queue
    ) -> block_queue.Queue:
        """Try schedulers that the kernel may have as modules, once each."""
        if block_queue.SCHEDULER not in seen.values:
            return seen
        for name in queue_policy.unlisted(wanted, seen.schedulers):
            if name not in self._tried:
                self._tried.add(name)
                try:
                    block_queue.write(seen.device, block_queue.SCHEDULER, name)
                except OSError as error:
                    LOG.info(
                        'The kernel has no I/O scheduler %s (%s).', name, error
                    )
                else:
                    break
        return block_queue.read(seen.device)

    def _bring(
        self,
        seen: block_queue.Queue,
        wanted: block_queue.Values,
        reason: str,
    ) -> bool:
        """Make a queue's values the wanted ones; returns whether they are.

        What the kernel refuses or rounds is not written again until it or
        the wish has changed.
        """
        key = (seen.device, seen.sequence)
        outcomes = self._outcomes.setdefault(key, {})
        for _ in range(_PASSES):
            changed = False
            for name in block_queue.SETTINGS:
                if name not in wanted or name not in seen.values:
                    continue
                now, value = seen.values[name], wanted[name]
                if now == value or outcomes.get((name, value)) == now:
                    continue
                if self._mode == DRY_RUN:
                    outcomes[name, value] = now
                    LOG.info(
                        'Dry run: %s of %s would become %s, is %s (%s).',
                        name, seen.device, value, now, reason,
                    )  # fmt: skip
                    continue
                changed = True
                seen = self._write(seen, name, value, reason)
                if name == block_queue.SCHEDULER:
                    # another one may take what this one has refused
                    outcomes.clear()
                outcomes[name, value] = seen.values.get(name)
            if not changed:
                break
        return all(
            seen.values.get(name, value) == value
            for name, value in wanted.items()
        )

    def _write(
        self, seen: block_queue.Queue, name: str, value: str, reason: str
    ) -> block_queue.Queue:
        before = seen.values[name]
        try:
            block_queue.write(seen.device, name, value)
        except TimeoutError:
            # nothing has come of it yet
            raise
        except OSError as error:
            # more requests than a device has room for, for one
            expected = error.errno == errno.EINVAL
            LOG.log(
                logging.INFO if expected else logging.WARNING,
                '%s of %s stays %s, %s is refused: %s (%s).',
                name, seen.device, before, value, error.strerror, reason,
            )  # fmt: skip
            return seen
        seen = block_queue.read(seen.device)
        LOG.info(
            '%s of %s is %s now, was %s (%s).',
            name, seen.device, seen.values.get(name), before, reason,
        )  # fmt: skip
        return seen
