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

"""The traits of providers that the agent sets and removes."""

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits

#: Those of the providers of disks.
DISK = {
    placement_client.DISK_TRAIT,
    traits.FORGOTTEN,
    traits.LVM,
    *traits.MEDIA.values(),
    *traits.CACHE_MODES.values(),
    *traits.HEALTH.values(),
}

#: Those among them that tell the health of the disk.
HEALTH = set(traits.HEALTH.values())

# Attempts to set traits: nova-compute changes the compute node's, too.
_ATTEMPTS = 3


def of_disk(
    disk: discover.Disk, cache_mode: str | None
) -> tuple[set[str], set[str]]:
    """Return the traits to replace at the provider of a disk, and its own.

    Only its health is known of a disk that cannot be read.

    :param cache_mode: host cache mode of the vdisks on it, None if unknown.
    """
    found = {
        trait for name, trait in traits.HEALTH.items() if name == disk.health
    }
    if not disk.medium:
        return HEALTH, found
    found |= {placement_client.DISK_TRAIT, traits.MEDIA[disk.medium]}
    if cache_mode is not None:
        found.add(traits.CACHE_MODES[cache_mode])
    if naming.is_entry(disk.path):
        found.add(traits.LVM)
    return DISK, found


def replace(
    client: placement_client.PlacementClient,
    uuid: str,
    managed: set[str],
    required: set[str],
) -> None:
    """Replace the managed traits of a provider; keep all others.

    :raises PlacementError: Placement does not answer or refuses.
    :raises Conflict: other processes kept changing the provider.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        generation, present = client.traits(uuid)
        wanted = present - managed | required
        if wanted == present:
            return
        try:
            client.set_traits(uuid, generation, wanted)
            return
        except exception.Conflict:
            if attempt == _ATTEMPTS:
                raise
