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

"""The disks of this host, as the threads of the agent share them.

The check of the disks and the update of Placement write it, each at a pace of
its own. Until Placement is up to date, the current disks have the last known
figures.
"""

import collections.abc
import threading
import time

from nova_diskplacer.agent import build_host_status
from nova_diskplacer.agent import cache_mode
from nova_diskplacer.agent import reported_disks
from nova_diskplacer.disks import discover
from nova_diskplacer.monitor import host_status

#: Takes the UUID of the compute node's provider, the cache mode of all vdisks
#: and the disks to report.
Send = collections.abc.Callable[
    [str, str | None, list[reported_disks.ReportedDisk]], None
]


class KnownDisks:
    """The last check of the disks, and the last update of Placement.

    Any thread may call any method.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._disks: list[discover.Disk] | None = None
        self._modes: cache_mode.Modes = {}
        self._root: str | None = None
        self._reported: list[reported_disks.ReportedDisk] | None = None
        self._pending_since: build_host_status.PendingSince = {}

    @property
    def disks(self) -> list[discover.Disk] | None:
        """The disks, None until they are known or if they cannot be read."""
        return self._disks

    def checked(self) -> tuple[list[discover.Disk] | None, cache_mode.Modes]:
        """Return the disks and the cache modes of the last check."""
        with self._lock:
            return self._disks, self._modes

    def set_disks(self, disks: list[discover.Disk] | None) -> None:
        """Replace the disks."""
        with self._lock:
            self._disks = disks

    def set_modes(self, modes: cache_mode.Modes) -> None:
        """Replace the cache modes."""
        with self._lock:
            self._modes = modes

    def set_reported(
        self,
        root: str | None,
        reported: list[reported_disks.ReportedDisk] | None,
    ) -> None:
        """Replace the result of the last update of Placement.

        :param root: UUID of the compute node's provider.
        """
        with self._lock:
            self._root = root
            if reported is not self._reported:
                self._reported = reported
                self._pending_since = build_host_status.pending_since(
                    reported or [], self._pending_since, time.time()
                )

    def free_gb(self) -> dict[str, int]:
        """Return the GiB that no claim and no vdisk takes, by disk."""
        with self._lock:
            return {
                reported.disk.uuid: reported.figures.free_gb
                for reported in self._reported or ()
            }

    def status(self) -> list[host_status.Disk] | None:
        """Return the status of each disk, None if they are not known."""
        with self._lock:
            disks, reported = self._disks, self._reported
            since = self._pending_since
        if disks is None:
            return None
        known = reported_disks.with_known_figures(reported or [], disks)
        return build_host_status.build_disks(disks, known, since)

    def report(self, send: Send) -> None:
        """Pass the disks to ``send``, from one thread at a time.

        Nothing is sent before they are known: the reports of a former run
        hold until then.
        """
        with self._lock:
            if (
                self._root is None
                or self._disks is None
                or self._reported is None
            ):
                return
            send(
                self._root,
                cache_mode.common(self._modes.values()),
                reported_disks.with_known_figures(self._reported, self._disks),
            )
