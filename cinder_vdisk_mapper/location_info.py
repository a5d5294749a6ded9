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

"""The capability ``location_info``, by which backends know shared disks."""

import dataclasses
from typing import Any

from cinder.volume import volume_utils

_DRIVER = 'VDiskMapper'


@dataclasses.dataclass(frozen=True)
class Location:
    """Location of the disks of a backend of this driver."""

    host: str
    backend: str
    disk_root: str
    media: str

    def __str__(self) -> str:
        return ':'.join(
            (_DRIVER, self.host, self.backend, self.disk_root, self.media)
        )

    def shares_disks(self, other: 'Location') -> bool:
        """Return whether both use the same disks by the same backend."""
        return dataclasses.replace(self, media=other.media) == other


def of_backend(host: str, configuration: Any) -> Location:
    """Return the location of the backend whose Cinder host is ``host``."""
    return Location(
        volume_utils.extract_host(host, 'host'),
        configuration.vdisk_backend,
        configuration.vdisk_disk_root,
        configuration.vdisk_media,
    )


def parse(location_info: str | None) -> Location | None:
    """Parse a reported location; None for other drivers."""
    # only the directory may contain colons
    driver, _, rest = (location_info or '').partition(':')
    host, _, rest = rest.partition(':')
    backend, _, rest = rest.partition(':')
    disk_root, _, media = rest.rpartition(':')
    if driver != _DRIVER or not (host and backend and disk_root and media):
        return None
    return Location(host, backend, disk_root, media)
