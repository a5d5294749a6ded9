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

"""The block device of a prepared disk."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Device:
    """The block device whose queue serves a prepared disk alone.

    ``uuid`` is the disk's UUID, ``name`` the device's name (``sda``),
    ``number`` is ``major:minor``. ``mbps`` is the known throughput of the
    disk in MB/s (10^6 bytes), 0 if unknown.
    """

    uuid: str
    name: str
    number: str
    rotational: bool
    mbps: int = 0
