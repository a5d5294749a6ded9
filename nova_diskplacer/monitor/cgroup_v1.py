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

"""Enables the I/O accounting of cgroup v1."""

import collections.abc

from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device

LOG = logging.getLogger(__name__)

LIMIT = 'blkio.throttle.read_bps_device'


class Accounting:
    """Makes cgroup v1 account for I/O; cgroup v2 always does.

    Since Linux 6.10, cgroup v1 accounts only for devices that have ever had
    a limit.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self._path = hierarchy.path('', LIMIT)
        self._needed = hierarchy.version == 1
        self._log = log_once.ChangeLogger(LOG)

    def enable(self, devices: collections.abc.Iterable[Device]) -> None:
        """Enable accounting for devices; repeatable.

        A failure is logged and affects no other device.
        """
        if not self._needed:
            return
        for device in devices:
            try:
                self._set_limit(device)
                self._log.clear(device.uuid)
            except OSError as error:
                self._log.log(
                    device.uuid,
                    'The kernel may not account for I/O on disk %s: %s: %s',
                    device.uuid,
                    self._path,
                    error.strerror,
                )

    def _set_limit(self, device: Device) -> None:
        """Set the root's limit to 0 (unlimited) unless it has a limit."""
        with open(self._path, encoding='ascii') as stream:
            limited = {line.split()[0] for line in stream}
        if device.number not in limited:
            with open(self._path, 'w', encoding='ascii') as stream:
                stream.write(f'{device.number} 0')
