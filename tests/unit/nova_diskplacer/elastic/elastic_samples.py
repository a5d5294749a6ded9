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


"""Samples of a server that uses an elastic vdisk."""

import dataclasses
import time

import fixtures
import numpy

from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.elastic.processes import decider
from nova_diskplacer.elastic.processes import progress
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import diskstats
from nova_diskplacer.monitor import types
from tests import configured
from tests.unit.nova_diskplacer.elastic import on_disks
from tests.unit.nova_diskplacer.monitor import example
from tests.unit.nova_diskplacer.monitor import samples

PATH = naming.striped_device(on_disks.NAME)
MB = 10**6


def server(*paths, uuid='server'):
    return libvirt_servers.Server(
        uuid=uuid,
        name=uuid,
        extra_specs={},
        vdisks=paths or (PATH,),
        caches={},
        running=True,
        pinned_by_nova=False,
        xml='',
    )


@dataclasses.dataclass
class Load:
    """Counters that grow; each disk has 100 MB/s and each second is a round.

    ``moved`` are MB by consumer and disk, ``others`` by disk those that no
    consumer moved. With ``iocost``, disks that charge for the consumers' use.
    """

    disks: list
    servers: tuple = (server(),)
    iocost: str = ''

    def __post_init__(self):
        self.pairs = types.Pairs(
            (one.uuid, disk.uuid)
            for one in self.servers
            for disk in self.disks
        )
        self.totals = numpy.zeros((len(self.pairs), 5), numpy.int64)
        self.seconds = 0.0
        self.used = dict.fromkeys((disk.uuid for disk in self.disks), 0.0)
        self.bytes = dict.fromkeys(self.used, 0)

    def go(self, seconds, others=(), **moved):
        """Go on for a time; ``moved`` is MB/s by ``server_disk``."""
        others = dict(others)
        self.seconds += seconds
        for row, (consumer, disk) in enumerate(self.pairs):
            mbps = moved.get(f'{consumer}_{disk}', 0)
            column = 4 if disk in self.iocost else 0
            # both make 100 MB/s the whole of a disk
            unit = MB // 100 if column else MB
            done = int(mbps * unit * seconds)
            self.totals = self.totals.copy()
            self.totals[row, column] += done
            others[disk] = others.get(disk, 0) + mbps
        for disk, mbps in others.items():
            self.used[disk] += min(1.0, mbps / 100) * seconds
            self.bytes[disk] += int(mbps * MB * seconds)

    def sample(self):
        states = {
            disk.uuid: example.disk_state(
                disk.uuid,
                totals=diskstats.Counters(read_bytes=self.bytes[disk.uuid]),
                totals_seconds=self.seconds,
                used_seconds=self.used[disk.uuid],
                iocost_usage=0.5 if disk.uuid in self.iocost else None,
            )
            for disk in self.disks
        }
        return samples.make_sample(
            self.pairs,
            disks=states,
            history=types.PairTable(self.pairs, totals=self.totals),
            servers=self.servers,
            prepared_disks=self.disks,
        )


class World:
    """A host whose agent decides on the elastic vdisk at ``location``.

    The vdisk demands ``mbps`` in all, which its legs share.
    """

    def __init__(self, test, location='aaaa', others='bcdef'):
        self.conf = test.useFixture(configured.Options()).conf
        self.root = test.useFixture(fixtures.TempDir()).path
        self.conf.set_override('disk_root', self.root, 'diskplacer')
        for name, value in {
            'enabled': True,
            'widen_after': 30,
            'narrow_after': 60,
            'min_interval': 20,
        }.items():
            self.conf.set_override(name, value, 'diskplacer_elastic')
        self.uuids = sorted({*location, *others})
        self.location = location
        self.free_gb = dict.fromkeys(self.uuids, 50)
        self.mbps = 0
        self.now = 1000.0
        self.load = Load(self.disks())
        self.elastic = self.agent()

    def agent(self):
        """Return an agent that has just started."""
        return decider.WidthDecider(
            self.conf, lambda: self.free_gb, lambda: None, lambda: self.now
        )

    def disks(self):
        """Return the disks as they are discovered."""
        others = ''.join(self.uuids)
        if not self.location:
            return [on_disks.disk(uuid) for uuid in others]
        return on_disks.disks(self.location, others)

    def tick(self):
        """Go on for an interval, and return the status."""
        self.now += 10
        self.load.disks = self.disks()
        legs = max(1, len(self.location))
        self.load.go(
            10,
            **{
                f'server_{uuid}': min(
                    100, self.mbps * self.location.count(uuid) / legs
                )
                for uuid in self.uuids
            },
        )
        self.elastic.run(self.load.sample())
        return self.elastic.status

    def ticks(self, most=100, until=lambda state: state.step):
        """Go on until something holds for the status, which is returned."""
        for _ in range(most):
            state = self.tick()
            if until(state):
                return state
        raise AssertionError(f'it does not come to this: {state}')

    def executor_says(self, state, step=None, **fields):
        """Write the state of the executor, of a step."""
        about = (
            {}
            if step is None
            else {
                'vdisk': step.vdisk,
                'location': step.location,
                'asked': step.asked,
            }
        )
        progress.FILE.write(
            self.root,
            progress.Progress(
                **{'state': state, 'time': time.time(), **about, **fields}
            ),
        )
