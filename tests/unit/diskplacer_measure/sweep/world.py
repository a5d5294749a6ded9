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

"""A host, its disks, Nova, Cinder and Placement that exist in memory only.

Time passes when somebody sleeps. Servers print what ``worker.sh`` prints.
"""

import base64
import contextlib
import os
import re
import types
import uuid

import fixtures

from diskplacer_measure.sweep.measure import host_facts
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from tests.fakes import disks as fake_disks
from tests.unit.diskplacer_measure.sweep import samples
from tests.unit.nova_diskplacer.agent import test_queue_tuner

OTHER = '7d1f2b0c-5e0f-4a63-9a55-0e9f5b1c2d22'
DEVICE = 'sdx'


class Killed(BaseException):
    """The process has been killed: it changes nothing any more."""


class Server:
    """A server, which prints what its user data make it print."""

    def __init__(self, world, name, user_data):
        self.id = str(uuid.uuid4())
        self.name = name
        self.status = 'BUILD'
        self.fault = None
        self._world = world
        self._created = world.time()
        self._boot_seconds = world.boot_seconds
        script = base64.b64decode(user_data).decode()
        self._settings = dict(re.findall(r"^(\w+)='?([^'\n]*)", script, re.M))
        cells = re.search(r"^cells='?(.*?)'?$\n#", script, re.M | re.S)[1]
        self._cells = [line.split() for line in cells.split('\n')]

    def console(self):
        """Return what has been printed until now."""
        world = self._world
        booted = self._created + self._boot_seconds
        ready = booted + world.fill_seconds
        if world.time() < booted:
            return 'Booting\r\nkernel: still booting\r\n'
        if world.image_error:
            return self._lines(f'error {world.image_error}')
        if world.time() < ready:
            return 'Booted\r\n'
        skew = world.clock_skew
        text = self._lines(
            f'ready booted={int(booted + skew)} now={int(ready + skew)} '
            f'fill={int(world.fill_seconds * 100)} end'
        )
        for id_, start, *_, jobs, _, _, _ in self._cells:
            if ready > int(start) + 1:
                text += self._lines(f'late {id_}')
            elif id_ in world.failing:
                text += self._lines(f'failed {id_} fio: no libaio')
            else:
                took = world.seconds.get(id_, world.usual_seconds)
                if int(start) + took > world.time():
                    return text
                text += self._measured(id_, int(start), took, int(jobs))
        return text + self._lines('done end')

    def _measured(self, id_, start, took, jobs):
        world = self._world
        kib = ','.join(['10240'] * jobs)
        ms = ','.join([str(int((took - world.overhead) * 1000))] * jobs)
        return self._lines(
            f'cell {id_} began={start} took={int(took * 100)} kib={kib} '
            f'ms={ms} latency=1500.000 usr=5.0000 sys=15.0000 ctx=300 '
            f'cpu={world.guest_cpu} end'
        )

    def _lines(self, text):
        line = f'sweep {self._settings["token"]} {text}\r\n'
        return line + line


class Compute:
    """Nova's API, as openstacksdk has it."""

    def __init__(self, world):
        self._world = world
        self.list = {}
        self.deleted = []
        self.others = []
        self.flavors_ = {}

    def get_endpoint_data(self):
        return types.SimpleNamespace(max_microversion=(2, 96))

    def create_flavor(self, **values):
        with self._world.step('create a flavor'):
            flavor = types.SimpleNamespace(
                id=str(uuid.uuid4()), extra_specs={}, **values
            )
            self.flavors_[flavor.id] = flavor
        return flavor

    def create_flavor_extra_specs(self, flavor, extra_specs):
        with self._world.step('set extra specs'):
            flavor.extra_specs = extra_specs

    def delete_flavor(self, flavor, ignore_missing=True):
        with self._world.step('delete a flavor'):
            self.flavors_.pop(flavor.id)

    def flavors(self, is_public):
        self._world.check()
        return list(self.flavors_.values())

    def create_server(self, **values):
        world = self._world
        with world.step('create a server'):
            server = Server(world, values['name'], values['user_data'])
            self.list[server.id] = server
            world.requests.append(values)
            flavor = self.flavors_[values['flavor_id']]
            world.place(server, int(flavor.extra_specs['diskplacer:vdisk_gb']))
        return server

    def get_server(self, server):
        self._world.check()
        return self.list[server]

    def get_server_console_output(self, server):
        self._world.check()
        return {'output': self.list[server].console()}

    def servers(
        self,
        details,
        all_projects,
        name='',
        compute_host='',
        deleted_only=False,
    ):
        self._world.check()
        if compute_host:
            return [*self.list.values(), *self.others]
        return self.deleted if deleted_only else list(self.list.values())

    def delete_server(self, server, ignore_missing):
        with self._world.step('delete a server'):
            self.deleted.append(self.list.pop(server))
            self._world.unplace(server)


class Storage:
    """Cinder's API, as openstacksdk has it."""

    def __init__(self, world):
        self._world = world

    def volumes(self, details):
        self._world.check()
        return list(self._world.volumes.values())

    def delete_volume(self, volume, ignore_missing):
        with self._world.step('delete a volume'):
            self._world.volumes.pop(volume.id)


def make_inventory(total, reserved, allocation_ratio):
    """Return an inventory that Nova has made."""
    return {
        'total': total,
        'reserved': reserved,
        'max_unit': total,
        'allocation_ratio': allocation_ratio,
    }


class Placement:
    """Placement, as ``PlacementClient`` shows it."""

    def __init__(self, world):
        self._world = world
        self.claims = {}
        self.session = types.SimpleNamespace(
            get_project_id=lambda: 'project', get_user_id=lambda: 'user'
        )

    def provider(self, uuid_):
        return placement_client.Provider(uuid_, uuid_, 1, 'host', 'host')

    def inventories(self, uuid_):
        self._world.check()
        if uuid_ == 'host':
            return 1, {
                'VCPU': make_inventory(4, 0, 4.0),
                'MEMORY_MB': make_inventory(8192, 512, 1.0),
            }
        figures = inventory.compute_figures(
            self._world.disk(uuid_), self.provider_allocations(uuid_)
        )
        return 1, inventory.inventories(figures)

    def provider_allocations(self, uuid_):
        self._world.check()
        return {
            consumer: resources[uuid_]
            for consumer, resources in self.claims.items()
            if uuid_ in resources
        }

    def allocations(self, consumer):
        self._world.check()
        return placement_client.Allocations(
            'project', self.claims.get(consumer, {}), 'user', 1
        )

    def claim(self, consumer, allocations, consumer_type):
        with self._world.step('claim'):
            if allocations.resources:
                self.claims[consumer] = allocations.resources
            else:
                self.claims.pop(consumer, None)


class World(fixtures.Fixture):
    """Everything outside of the command.

    ``kill_at`` is the number of the step at which the process is killed.
    """

    def __init__(self):
        self._now = 1_000_000_000.25
        self.boot_seconds = 20
        self.fill_seconds = 2.0
        self.usual_seconds = 3.5
        self.overhead = 0.5
        self.seconds = {}
        self.failing = ()
        self.image_error = ''
        self.clock_skew = 0
        self.guest_cpu = '5,5,80,10,0'
        self.build_error = ''
        self.steps = []
        self.kill_at = None
        self.dead = False
        self.vdisks = {samples.DISK: [], OTHER: []}
        self.volumes = {}
        self.requests = []
        self.bare = []
        self.space = 0

    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        self.compute = Compute(self)
        self.block_storage = Storage(self)
        self.placement = Placement(self)
        self.image = types.SimpleNamespace(
            find_image=lambda name, ignore_missing: types.SimpleNamespace(
                id='image'
            )
        )
        self.kernel = test_queue_tuner.Kernel()
        self.kernel.add(DEVICE)
        write = self.kernel.write

        def step_and_write(device, setting, value):
            with self.step(f'{setting}={value}'):
                write(device, setting, value)

        self.kernel.write = step_and_write
        test_queue_tuner.patch_queues(self, self.kernel)
        for name, replacement in (
            ('time.time', self.time),
            ('time.sleep', self.sleep),
            ('nova_diskplacer.disks.discover.inspect', self.inspect),
            ('nova_diskplacer.disks.discover.discover', self.discover),
            ('nova_diskplacer.disks.measure.fio.temporary_space', self.room),
            ('nova_diskplacer.disks.measure.fio.Fio', self.fio),
            ('nova_diskplacer.disks.measure.fio.run', self.run_bare),
            (
                'diskplacer_measure.sweep.measure.host_facts.read',
                self.read_host,
            ),
            ('diskplacer_measure.sweep.measure.host_cpu.read', self.read_cpu),
            ('nova_diskplacer.disks.discover.kind_of', self.kind_of),
            (
                'nova_diskplacer.disks.lvm.volumes.remove_temporary',
                self.remove_temporary,
            ),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, replacement))

    # time, and the death of the process

    def time(self):
        return self._now

    def sleep(self, seconds):
        self.check()
        # whatever waits for a condition takes a while
        self._now += max(seconds, 0.001)
        for server in self.compute.list.values():
            server.status = 'ERROR' if self.build_error else 'ACTIVE'
            server.fault = {'message': self.build_error}

    def check(self):
        if self.dead:
            raise Killed

    @contextlib.contextmanager
    def step(self, name):
        """Do something that lasts; the process may die just before it."""
        self.check()
        if len(self.steps) == self.kill_at:
            self.dead = True
            raise Killed
        self.steps.append(name)
        self._now += 0.01
        yield

    # the host

    def disk(self, uuid_):
        disk = fake_disks.make_disk(
            uuid_,
            total_gb=40,
            held=self.vdisks[uuid_],
            path=os.path.join(self.path, uuid_),
        )
        return disk

    def inspect(self, disk_root, uuid_, *args):
        return self.disk(uuid_)

    def discover(self, disk_root, kind=None):
        return [self.disk(uuid_) for uuid_ in sorted(self.vdisks)]

    def kind_of(self, disk_root, uuid_):
        return discover.LVM

    def read_host(self, conf, uuid_):
        if uuid_ not in self.vdisks:
            raise exception.DiskError(f'no disk {uuid_}')
        return host_facts.Host(
            self.disk(uuid_),
            DEVICE,
            ('none', 'mq-deadline', 'bfq'),
            None,
            4,
            8192,
            'none',
        )

    def read_cpu(self):
        """Return jiffies of one processor that is busy a tenth of its time."""
        jiffies = self._now * 100
        return {
            'user': int(jiffies / 10),
            'system': 0,
            'idle': int(jiffies * 9 / 10),
            'iowait': 0,
            'steal': 0,
        }

    # servers' vdisks

    def place(self, server, size_gb):
        """Put the vdisk of a server on the disk with the most free space."""
        claimed = {
            uuid_: sum(
                claim[placement_client.GB]
                for claim in self.placement.provider_allocations(
                    uuid_
                ).values()
            )
            for uuid_ in self.vdisks
        }
        free = {uuid_: 40 - gb for uuid_, gb in claimed.items()}
        chosen = max(free, key=lambda uuid_: (free[uuid_], uuid_))
        if free[chosen] < size_gb:
            self.build_error = 'No valid host was found'
            return
        volume = types.SimpleNamespace(
            id=str(uuid.uuid4()),
            name=f'{server.id}-blank-vol',
            status='in-use',
        )
        self.volumes[volume.id] = volume
        vdisk = fake_disks.make_vdisk(volume.id, server.id, size_gb)
        self.vdisks[chosen].append(vdisk)
        self.placement.claims[server.id] = {
            chosen: {placement_client.GB: size_gb}
        }
        directory = os.path.join(self.path, chosen, 'vdisks')
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, vdisk.name), 'w'):
            pass

    def unplace(self, server):
        self.placement.claims.pop(server, None)
        for uuid_, held in self.vdisks.items():
            self.vdisks[uuid_] = [
                one for one in held if one.server_id != server
            ]
        self.volumes = {
            id_: volume
            for id_, volume in self.volumes.items()
            if volume.name != f'{server}-blank-vol'
        }

    # bare metal

    @contextlib.contextmanager
    def room(self, disk_root, uuid_, size_bytes):
        with self.step('allocate space'):
            self.space += 1
        try:
            yield os.path.join(self.path, 'space')
        finally:
            if not self.dead:
                self.space -= 1

    def remove_temporary(self, uuid_):
        with self.step('remove space'):
            self.space = 0

    def fio(self, path, size_bytes, cgroup):
        with open(path, 'w'):
            pass

        def fill():
            self._now += 1

        return types.SimpleNamespace(fill=fill)

    def run_bare(self, command, cgroup, text=''):
        self.check()
        token = re.search("^token='?([^'\n]*)", text, re.M)[1]
        cell = re.search("^cells='?([^'\n]*)", text, re.M)[1].split()
        with self.step('measure bare metal'):
            self.bare.append((cell, self.kernel.read(DEVICE).values))
        began = int(self._now)
        self._now += 3.5
        jobs = int(cell[4])
        kib = ','.join(['20480'] * jobs)
        ms = ','.join(['3000'] * jobs)
        line = (
            f'sweep {token} cell {cell[0]} began={began} took=350 kib={kib} '
            f'ms={ms} latency=700.0 usr=5.0 sys=5.0 ctx=100 '
            'cpu=10,10,70,10,0 end\n'
        )
        return types.SimpleNamespace(stdout=line, stderr='', returncode=0)

    # what must be true in the end

    def leftovers(self):
        """Return all that somebody would have to remove by hand."""
        found = {
            'servers': len(self.compute.list),
            'flavors': len(self.compute.flavors_),
            'volumes': len(self.volumes),
            'claims': len(self.placement.claims),
            'vdisks': sum(map(len, self.vdisks.values())),
            'space': self.space,
        }
        left = {name: count for name, count in found.items() if count}
        if self.kernel.queues[DEVICE] != test_queue_tuner.DEFAULTS:
            left['queue'] = self.kernel.queues[DEVICE]
        return left
