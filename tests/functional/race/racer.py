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

"""A process that changes vdisks from many threads: see test_race.

Prints, as JSON, what it believes to have left and what it was refused.
"""

import collections
import contextlib
import json
import random
import sys
import threading
import traceback
import uuid

from keystoneauth1 import adapter
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_concurrency import lockutils

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.backend import filesystem
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.placement import client as placement_client

PROJECT = str(uuid.UUID(int=1))
SHARED = str(uuid.UUID(int=2))

THREADS = 8
ROUNDS = 15

REQUEST = flavor.VDiskRequest(vdisks=1, vdisk_gb=1)


def client(endpoint):
    """Return a client of the Placement at an endpoint."""
    auth = token_endpoint.Token(endpoint, 'admin')
    return placement_client.PlacementClient(
        adapter.Adapter(session.Session(auth=auth), service_type='placement')
    )


class Thread(threading.Thread):
    """Works on its own volumes, but on the same disks as all others."""

    def __init__(self, operations, seed):
        super().__init__()
        self.operations = operations
        self.binder = binding.Binder(operations, flavor.ANY)
        self.random = random.Random(seed)
        self.held = {}
        self.claims = {}
        self.shared = None
        self.refused = collections.Counter()
        self.failure = None

    def run(self):
        try:
            while self.shared is None:
                # others kept changing the provider
                with contextlib.suppress(exception.Conflict):
                    self.shared = self.bind(SHARED)
            for _ in range(ROUNDS):
                step = self.random.choice(
                    (
                        self.create,
                        self.attach,
                        self.snapshot,
                        self.clone,
                        self.extend,
                        self.delete,
                    )
                )
                try:
                    step()
                except (errors.BindingError, exception.Conflict):
                    self.refused[step.__name__] += 1
        except Exception:
            self.failure = traceback.format_exc()

    def bind(self, volume_id, server=None):
        """Bind a volume of 1 GiB and return its disk."""
        request = bind_request.BindRequest(
            name=f'volume-{volume_id}',
            volume_id=volume_id,
            size_gb=1,
            server=server,
            boot_time=server is not None,
            policy=self.random.choice(mapping.names_on_one_disk()),
            attached=dict,
        )
        with binding.locked(request):
            (disk,) = self.binder.bind(request)
        return disk

    def create(self):
        """Bind a volume for nobody."""
        volume_id = str(uuid.uuid4())
        self.held[f'volume-{volume_id}'] = self.bind(volume_id), 1

    def attach(self):
        """Bind a volume for a server, which has claimed a disk for it."""
        server_id, volume_id = str(uuid.uuid4()), str(uuid.uuid4())
        disk = self.random.choice(self.operations.backend.disks()).uuid
        self.operations.placement._call(
            'put',
            f'/allocations/{server_id}',
            {
                'allocations': {disk: {'resources': {placement_client.GB: 1}}},
                'project_id': PROJECT,
                'user_id': PROJECT,
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
            },
        )
        self.claims[server_id] = disk
        try:
            bound = self.bind(
                volume_id, nova_api.Server(server_id, PROJECT, 'node', REQUEST)
            )
        except exception.DiskPlacerError as error:
            raise AssertionError('a claim was not filled') from error
        assert bound == disk
        self.held[f'volume-{volume_id}'] = disk, 1

    def any_held(self):
        """Return the (name, disk, GiB) of a vdisk, or of a new one."""
        if not self.held:
            self.create()
        name = self.random.choice(sorted(self.held))
        return name, *self.held[name]

    def snapshot(self):
        """Snapshot a volume, or a snapshot."""
        name, disk, size = self.any_held()
        snapshot_id = str(uuid.uuid4())
        self.operations.snapshot(
            disk, name, f'snapshot-{snapshot_id}', snapshot_id
        )
        self.held[f'snapshot-{snapshot_id}'] = disk, size

    def clone(self):
        """Clone a volume or a snapshot."""
        name, disk, size = self.any_held()
        volume_id = str(uuid.uuid4())
        self.operations.clone(
            disk, name, f'volume-{volume_id}', volume_id, size + 1
        )
        self.held[f'volume-{volume_id}'] = disk, size + 1

    def extend(self):
        """Extend a volume."""
        name, disk, size = self.any_held()
        self.operations.extend(disk, name, size + 1)
        self.held[name] = disk, size + 1

    def delete(self):
        """Delete a volume."""
        name, disk, _ = self.any_held()
        self.operations.delete(disk, name)
        del self.held[name]


def main(disk_root, lock_path, endpoint, seed):
    """Run the threads to their end and print what came of them."""
    lockutils.set_defaults(lock_path)
    threads = [
        Thread(
            VDiskOperations(
                filesystem.FilesystemBackend(disk_root), client(endpoint)
            ),
            f'{seed}-{number}',
        )
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = collections.Counter()
    for thread in threads:
        refused.update(thread.refused)
    print(
        json.dumps(
            {
                'held': {k: v for t in threads for k, v in t.held.items()},
                'claims': {k: v for t in threads for k, v in t.claims.items()},
                'shared': [t.shared for t in threads],
                'refused': refused,
                'failures': [t.failure for t in threads if t.failure],
            }
        )
    )


if __name__ == '__main__':
    main(*sys.argv[1:])
