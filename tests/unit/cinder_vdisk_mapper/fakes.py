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

"""Disks and a Placement that exist in memory only."""

import collections
import dataclasses
from unittest import mock

from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks

PROJECT = 'project'


class Backend(base.Backend):
    """Keeps vdisks in memory.

    ``full`` holds the disks that refuse to allocate; ``changed`` is called
    after each allocation; ``content`` is what (disk, name) holds.
    ``interrupted`` has extensions end before what they add is zeroed.
    ``bind_failures`` are the reasons that were counted. ``linked`` is the disk
    of each link by name, ``to_devices`` are the names whose link leads to a
    device, ``parked`` those whose link leads nowhere for now; ``has_device``
    and ``open`` hold (disk, name) of what has a device and of what processes
    use.
    """

    connection_type = 'fake'
    helper = mock.Mock()

    def __init__(self, *disks):
        super().__init__('/disks')
        self.known = {disk.uuid: disk for disk in disks}
        self.full = set()
        self.content = {}
        self.changed = lambda: None
        self.interrupted = False
        self.bind_failures = []
        self.linked = {}
        self.open = set()
        self.to_devices = set()
        self.parked = set()
        self.has_device = set()

    def disks(self, wait=False):
        return [self.known[uuid] for uuid in sorted(self.known)]

    def disk(self, uuid):
        if uuid not in self.known:
            return fake_disks.make_disk(uuid, 0, health='missing')
        return self.known[uuid]

    def _run(self, operation, *arguments):
        raise NotImplementedError(operation)

    def has_entry(self, uuid):
        return uuid in self.known

    def count_bind_failure(self, reason):
        self.bind_failures.append(reason)

    def forgotten(self, uuid):
        return uuid not in self.known

    def linked_disk(self, name):
        return self.linked.get(name)

    def links(self):
        return self.linked

    def link(self, disk, name, to_device=None):
        if to_device is None:
            to_device = self.is_linked_to_device(name)
        self.linked[name] = disk
        self.parked.discard(name)
        self.to_devices.discard(name)
        if to_device:
            self.to_devices.add(name)
            self.attach_device(disk, name)

    def unlink(self, name):
        self.linked.pop(name, None)
        self.to_devices.discard(name)

    def is_linked_to_device(self, name):
        return name in self.to_devices

    def is_parked(self, name):
        return name in self.parked

    def unpark_link(self, name):
        self.parked.discard(name)

    def attach_device(self, disk, name):
        if self.is_linked_to_device(name):
            self.has_device.add((disk, name))

    def detach_device(self, disk, name):
        if (disk, name) in self.open:
            raise exception.DiskError(f'{name} is in use')
        self.has_device.discard((disk, name))

    def with_device(self, disk):
        return sorted(name for uuid, name in self.has_device if uuid == disk)

    def in_use(self, disk, name):
        return (disk, name) in self.open

    def sweep(self, disk):
        pass

    def written(self, disk, name):
        return True

    def create(self, disk, name, volume_id, server_id, size_gb):
        if name in [vdisk.name for vdisk in self.known[disk].vdisks]:
            return
        self._add(disk, name, volume_id, server_id, size_gb)
        self.content[disk, name] = ''

    def extend(self, disk, name, size_gb):
        self._change(disk, name, size_gb, False, max)
        if self.interrupted:
            raise exception.DiskError('interrupted')
        self._change(disk, name, size_gb, True, max)
        self.changed()

    def shrink(self, disk, name, size_gb):
        self._change(disk, name, size_gb, True, min)

    def delete(self, disk, name):
        if (disk, name) in self.open:
            raise exception.DiskError(f'{name} is in use')
        held = self.known[disk].vdisks
        self._set(disk, [vdisk for vdisk in held if vdisk.name != name])
        self.content.pop((disk, name), None)

    def snapshot(self, disk, name, snapshot, snapshot_id):
        (size_gb,) = [
            vdisk.size_gb
            for vdisk in self.known[disk].vdisks
            if vdisk.name == name
        ]
        if self._add(disk, snapshot, snapshot_id, None, size_gb):
            self.content[disk, snapshot] = self.content[disk, name]

    def clone(self, disk, source, name, volume_id, size_gb):
        if self._add(disk, name, volume_id, None, size_gb):
            self.content[disk, name] = self.content[disk, source]

    def allocate_clone(self, *arguments):
        self.clone(*arguments)

    def revert(self, disk, name, snapshot):
        self.content[disk, name] = self.content[disk, snapshot]

    def clear(self, disk, name):
        self.content[disk, name] = ''

    def copy(self, disk, name, target):
        self.content[target, name] = self.content[disk, name]

    def rename(self, disk, name, new_name, volume_id):
        self._set(
            disk,
            [
                dataclasses.replace(
                    vdisk, name=new_name, volume_id=volume_id, server_id=None
                )
                if vdisk.name == name
                else vdisk
                for vdisk in self.known[disk].vdisks
            ],
        )
        if (disk, name) in self.content:
            self.content[disk, new_name] = self.content.pop((disk, name))

    def device_path(self, disk, name):
        return f'/disks/{disk}/{name}'

    def _add(self, disk, name, volume_id, server_id, size_gb):
        if disk in self.full:
            raise exception.DiskError(f'{disk} is full')
        held = self.known[disk].vdisks
        for vdisk in held:
            if vdisk.name == name:
                if vdisk.volume_id != volume_id:
                    raise exception.DiskError(f'{name} is not yours')
                return False
        new = VDisk(name, volume_id, server_id, size_gb * GIB)
        self._set(disk, (*held, new))
        self.changed()
        return True

    def _change(self, disk, name, size_gb, whole, choose):
        """Resize a vdisk to the larger or smaller of two sizes."""
        self._set(
            disk,
            [
                dataclasses.replace(
                    vdisk,
                    size_bytes=choose(vdisk.size_bytes, size_gb * GIB),
                    usable=whole,
                )
                if vdisk.name == name
                else vdisk
                for vdisk in self.known[disk].vdisks
            ],
        )

    def _set(self, disk, held):
        before = self.known[disk]
        taken = sum(vdisk.size_bytes for vdisk in held)
        self.known[disk] = dataclasses.replace(
            before,
            vdisks=tuple(held),
            free_bytes=before.size_bytes - taken,
        )


class Placement:
    """Holds claims and inventories; ``down`` has it refuse everything.

    Like Placement it accepts no claim beyond what an inventory offers.
    """

    def __init__(self, *disks):
        self.claims = collections.defaultdict(dict)
        self.projects = {}
        self.offered = {
            disk.uuid: {
                placement_client.GB: {'total': disk.total_gb, 'reserved': 0}
            }
            for disk in disks
        }
        self.generation = 0
        self.down = False

    def claim(self, server, claims, project=PROJECT):
        """Claim GiB of disks for a server; False if they are not offered."""
        for disk, gb in claims.items():
            if gb > self.room_of(disk):
                return False
        for disk, gb in claims.items():
            self.claims[disk][server] = gb
        self.projects[server] = project
        self.generation += 1
        return True

    def free_gb(self, root):
        """Return the GiB of each disk that are offered and not claimed."""
        self._answer()
        return {disk: self.room_of(disk) for disk in self.offered}

    def room_of(self, disk):
        """Return the GiB of a disk that are offered and not claimed."""
        offered = self.offered[disk][placement_client.GB]
        used = sum(self.claims[disk].values())
        return offered['total'] - offered['reserved'] - used

    def allocations(self, consumer):
        self._answer()
        return placement_client.Allocations(
            self.projects.get(consumer),
            {
                disk: {placement_client.GB: claims[consumer]}
                for disk, claims in self.claims.items()
                if consumer in claims
            },
        )

    def provider_allocations(self, uuid):
        self._answer()
        return {
            server: {placement_client.GB: gb}
            for server, gb in self.claims[uuid].items()
        }

    def provider(self, uuid):
        self._answer()
        if uuid not in self.offered:
            return None
        return placement_client.Provider(uuid, uuid, 0, 'node', 'node')

    def inventories(self, uuid):
        self._answer()
        return self.generation, self.offered[uuid]

    def set_inventories(self, uuid, generation, inventories):
        self._answer()
        if generation != self.generation:
            raise exception.Conflict
        self.offered[uuid] = inventories
        self.generation += 1

    def reshape(self, changes, consumer, allocations, consumer_type=''):
        self._answer()
        for uuid, (generation, inventories) in changes.items():
            if generation != self.generation:
                raise exception.Conflict
            self.offered[uuid] = inventories
            gb = allocations.resources.get(uuid, {}).get(placement_client.GB)
            self.claims[uuid].pop(consumer, None)
            if gb:
                self.claims[uuid][consumer] = gb
        self.generation += 1

    def _answer(self):
        if self.down:
            raise exception.PlacementError('Placement is down')
