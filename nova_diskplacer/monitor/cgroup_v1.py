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

"""Has the kernel count what cgroups do on devices."""

import collections.abc

from oslo_log import log as logging

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import log_once
from nova_diskplacer.host.devices import Device

LOG = logging.getLogger(__name__)

LIMIT = 'blkio.throttle.read_bps_device'


class Counting:
    """Makes cgroup v1 count; cgroup v2 always does.

    Since Linux 6.10 cgroup v1 counts only on devices that have ever been
    given a limit.
    """

    def __init__(self, hierarchy: cgroups.Hierarchy) -> None:
        self._path = hierarchy.path('', LIMIT)
        self._needed = hierarchy.version == 1
        self._log = log_once.ChangeLogger(LOG)

    def keep(self, devices: collections.abc.Iterable[Device]) -> None:
        """Have what is done on these devices counted; repeatable.

        A device where that fails is logged once and spoils no other.
        """
        if not self._needed:
            return
        for device in devices:
            try:
                self._keep(device)
                self._log.clear(device.uuid)
            except OSError as error:
                self._log.log(
                    device.uuid,
                    'The I/O of servers on disk %s may not be counted: %s: %s',
                    device.uuid,
                    self._path,
                    error.strerror,
                )

    def _keep(self, device: Device) -> None:
        """Give the root a limit of 0, which is none, unless it has one."""
        with open(self._path, encoding='ascii') as stream:
            limited = {line.split()[0] for line in stream}
        if device.number not in limited:
            with open(self._path, 'w', encoding='ascii') as stream:
                stream.write(f'{device.number} 0')
