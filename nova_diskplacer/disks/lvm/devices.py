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
"""Remembers which devices each volume group is on.

LVM looks at all devices of a host to find that out, and hangs with any one of
them. A command that is told the devices of its group looks at no others, so
what was found once is kept until the host is booted, for all processes.
"""

import contextlib
import json
import os

from nova_diskplacer.host import files
from nova_diskplacer.host import locks

FILE = 'volume-groups.json'

Devices = dict[str, tuple[str, ...]]


class Keeper:
    """Keeps the devices of groups in a file, for all processes."""

    def load(self) -> Devices:
        """Return the devices of groups by the groups' names, as kept last."""
        try:
            with open(_path(), encoding='utf-8') as stream:
                return {
                    str(name): tuple(map(str, devices))
                    for name, devices in json.load(stream).items()
                }
        except (OSError, AttributeError, TypeError, ValueError):
            # it only spares a look at all devices
            return {}

    def keep(self, devices: Devices) -> None:
        """Keep the devices of groups, whole or not at all, if possible."""
        with contextlib.suppress(OSError):
            os.makedirs(locks.DIRECTORY, mode=0o700, exist_ok=True)
            files.replace(_path(), json.dumps(devices), durable=False)


def _path() -> str:
    return os.path.join(locks.DIRECTORY, FILE)
