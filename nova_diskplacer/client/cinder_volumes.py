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

"""Reads the location, host and devices of volumes from Cinder's answers.

A volume at rest has its location in ``provider_id``, one that is exported to
another host has the export there.
"""

import collections.abc

from oslo_utils import uuidutils

from nova_diskplacer import terminal
from nova_diskplacer.client import cloud
from nova_diskplacer.disks.location import Location


def location_of(volume: cloud.Item) -> Location:
    """Return the location of a volume, empty for one that is not bound."""
    return Location.parse(volume['provider_id'])


def is_location(location: Location) -> bool:
    """Return whether a location is that of a vdisk.

    While a volume is exported, Cinder shows the export in its place.
    """
    return bool(location) and all(map(uuidutils.is_uuid_like, location))


def host_of(volume: cloud.Item) -> str:
    """Return the host of a volume's backend, empty if it has none."""
    return backend_of(volume)[0]


def backend_of(item: cloud.Item) -> tuple[str, str]:
    """Return the host and section of the backend of a volume or service."""
    host, _, backend = (item['host'] or '').partition('@')
    return host, backend.partition('#')[0]


def exported(
    volumes: collections.abc.Iterable[cloud.Item],
) -> list[cloud.Item]:
    """Return the vdisks among volumes that are exported to another host.

    The export is in the place of the location. Other drivers may keep such
    values, too, so a volume is a vdisk only if a backend of the same name has
    one.
    """
    volumes = list(volumes)
    sections = {
        backend_of(volume)[1]
        for volume in volumes
        if is_location(location_of(volume))
    }
    return [
        volume
        for volume in volumes
        if volume['provider_id']
        and not is_location(location_of(volume))
        and backend_of(volume)[1] in sections
    ]


def devices_of(
    volumes: collections.abc.Iterable[cloud.Item],
) -> dict[str, str]:
    """Return the devices of attached volumes, by volume."""
    return {
        volume['id']: short_device(attached.get('device'))
        for volume in volumes
        for attached in volume['attachments'] or ()
    }


def short_device(device: str | None) -> str:
    """Return the name of a device without ``/dev/``.

    Users can give any name to the device of an attachment.
    """
    return terminal.printable((device or '').removeprefix('/dev/'))
