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

"""The ledger holds, whatever is asked for in whatever order.

Random caches and random streams of requests go through the real filter,
mapping policies and cache, through the steps in which nova-scheduler takes
them, against a simulated Placement that refuses what does not fit. What must
hold is computed here a second time, by brute force.
"""

import collections
import dataclasses
import itertools
import uuid
from unittest import mock

import hypothesis
import numpy as np
from hypothesis import stateful
from hypothesis import strategies as st
from nova import objects

from cinder_vdisk_mapper.attach import disk_choice
from nova_diskplacer import flavor
from nova_diskplacer import mapping as mappings
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import ledger
from nova_diskplacer.placement import match_claims
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import placement_queries
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import server_volumes
from tests.fakes import disks as fake_disks
from tests.fakes import flavors
from tests.unit.nova_diskplacer.scheduler import fakes
from tests.unit.nova_diskplacer.scheduler import simulated

REPORT_TIMEOUT = 300

disks_of_a_host = st.lists(
    st.tuples(
        st.sampled_from([flavor.HDD, flavor.SSD]),
        st.one_of(st.integers(1, 30), st.integers(30, 120)),
        st.integers(10, 200),
    ),
    min_size=1,
    max_size=5,
)

requests = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 6),
    vdisk_gb=st.integers(1, 20),
    mapping=st.sampled_from(mappings.names_on_one_disk()),
    media=st.sampled_from([flavor.ANY, flavor.ANY, flavor.HDD, flavor.SSD]),
    vdisk_mbps=st.sampled_from([0, 0, 5, 20]),
    vdisks_per_disk=st.sampled_from([1, 1, 2, 3]),
)


class Ledger(stateful.RuleBasedStateMachine):
    """Servers come and go; agents report now and then."""

    servers = stateful.Bundle('servers')

    def __init__(self):
        super().__init__()
        objects.register_all()
        self.clock = fakes.Clock()
        self.cache = host_disk_cache.HostDiskCache(
            REPORT_TIMEOUT, clock=self.clock
        )
        self.placement = simulated.Placement()
        self.requests = {}
        self.reported = {}
        self.held_until = 0
        self.numbers = itertools.count(1)
        self.patches = [
            mock.patch.object(where, name, value)
            for where, name, value in (
                (filters.report_listener, 'get_cache', lambda: self.cache),
                (
                    server_volumes,
                    'read',
                    lambda *_: server_volumes.ServerVolumes(),
                ),
                (
                    placement_queries,
                    'disks_in_tree',
                    self.placement.of_host,
                ),
                (
                    placement_queries,
                    'claims_of',
                    self.placement.claims_of,
                ),
                (
                    placement_queries,
                    'compute_nodes_with_room',
                    self.placement.with_room,
                ),
            )
        ]
        for patch in self.patches:
            patch.start()

    def new_uuid(self):
        """Return one that is the same when the steps are repeated."""
        return str(uuid.UUID(int=next(self.numbers)))

    def teardown(self):
        for patch in self.patches:
            patch.stop()

    @stateful.initialize(
        hosts=st.lists(disks_of_a_host, min_size=1, max_size=3)
    )
    def hosts(self, hosts):
        for host, disks in enumerate(hosts):
            for index, (medium, total_gb, total_mbps) in enumerate(disks):
                name = fakes.disk_uuid(host, index)
                self.placement.disks[name] = simulated.Disk(
                    name, host, medium, total_gb, total_mbps
                )
            self.report(host)

    @property
    def by_host(self):
        found = collections.defaultdict(list)
        for disk in self.placement.disks.values():
            found[disk.host].append(disk)
        return found

    def report(self, host):
        """The agent of a host reports what Placement and the disks say."""
        used = self.placement.used
        self.cache.update(
            fakes.report(
                host,
                *(
                    {
                        **fakes.disk(host, 0),
                        'uuid': disk.uuid,
                        'medium': disk.medium,
                        'total_gb': disk.total_gb,
                        'reserved_gb': disk.reserved_gb,
                        'used_gb': used(disk, placement_client.GB),
                        'total_mbps': disk.total_mbps,
                        'used_mbps': used(disk, placement_client.MBPS),
                    }
                    for disk in self.by_host[host]
                ),
            )
        )
        self.reported[host] = self.clock.now

    @stateful.rule(data=st.data())
    def agent_reports(self, data):
        self.report(data.draw(st.sampled_from(sorted(self.by_host))))

    @stateful.rule(seconds=st.sampled_from([1, 10, 30]))
    def time_passes(self, seconds):
        self.clock.now += seconds

    @stateful.rule(data=st.data())
    def volume_is_hot_plugged(self, data):
        """A driver reserves room that nobody has claimed."""
        disk = data.draw(st.sampled_from(list(self.placement.disks.values())))
        room = self.placement.room_gb(disk)
        if room:
            disk.reserved_gb += data.draw(st.integers(1, -(-room // 2)))

    @stateful.rule(data=st.data())
    def another_scheduler_claims(self, data):
        """Which this scheduler hears of by reports and looks only."""
        disk = data.draw(st.sampled_from(list(self.placement.disks.values())))
        room = self.placement.room_gb(disk)
        if room:
            claim = {
                placement_client.GB: data.draw(st.integers(1, -(-room // 2)))
            }
            assert self.placement.claim(self.new_uuid(), {disk.uuid: claim})

    @stateful.rule(
        target=servers, request=requests, quiet=st.sampled_from([False, True])
    )
    def boot(self, request, quiet):
        """Boot a server; fail, after retries, only if nothing holds it.

        ``quiet``: after what was chosen before is no longer held.
        """
        if quiet:
            self.clock.now += host_disk_cache.pending_claims.SECONDS + 1
        for _ in range(len(self.by_host) + 1):
            made = self.schedule(request, 1)
            if made:
                return made[0]
            self.clock.now += host_disk_cache.ROOM_QUERY_SECONDS
        fresh = [
            host
            for host, seen in self.reported.items()
            if self.clock.now - seen < REPORT_TIMEOUT
        ]
        assert not any(self.holds(host, request) for host in fresh)
        return stateful.multiple()

    @stateful.rule(target=servers, request=requests, number=st.integers(2, 4))
    def boot_many(self, request, number):
        """Boot several servers with one request: all or none."""
        return stateful.multiple(*self.schedule(request, number))

    @stateful.rule(server=stateful.consumes(servers))
    def delete(self, server):
        del self.placement.allocations[server]
        del self.requests[server]

    def holds(self, host, request):
        slots = [
            self.placement.slots(disk, request) for disk in self.by_host[host]
        ]
        if request.mapping == flavor.ROUND_ROBIN:
            slots = [min(slot, request.vdisks_per_disk) for slot in slots]
        return sum(slots) >= request.vdisks

    def schedule(self, request, number):
        """Do what nova-scheduler does; the servers made, all or none."""
        spec = objects.RequestSpec(
            flavor=objects.Flavor(
                name='any', extra_specs=flavors.extra_specs(request)
            )
        )
        spec._context = None
        filter_ = filters.DiskPlacementFilter()
        hosts = [fakes.host_state(host) for host in self.by_host]
        exact = self.clock.now >= self.held_until
        made = []
        claimed_on = []
        for _ in range(number):
            server = self.new_uuid()
            spec.instance_uuid = server
            hosts = list(filter_.filter_all(hosts, spec))
            run = disk_request.state_of(spec).last_run
            order = np.argsort(
                -run.values_for(hosts, run.choice.scores), kind='stable'
            )
            hosts = [hosts[at] for at in order.tolist()]
            for host in hosts:
                if not host.allocation_candidates:
                    continue
                candidate = host.allocation_candidates[0]
                self.held_until = (
                    self.clock.now + host_disk_cache.pending_claims.SECONDS
                )
                allocations = dict(candidate['allocations'])
                assert allocations.pop(host.uuid) == {'resources': {'VCPU': 1}}
                claims = {
                    disk: allocation['resources']
                    for disk, allocation in allocations.items()
                }
                before = {
                    disk: self.placement.slots(
                        self.placement.disks[disk], request
                    )
                    for disk in self.placement.disks
                }
                if self.placement.claim(server, claims):
                    host.num_instances += 1
                    host.updated = self.clock.now
                    claimed_on.append(host)
                    made.append(server)
                    self.requests[server] = request
                    if exact:
                        self.check_choice(host, request, claims, before)
                    break
            else:
                break
        # Nova collects alternates, which must not count as used
        if len(made) == number > 1:
            hosts = filter_.filter_all(hosts, spec)
        for host in hosts if len(made) == number else ():
            if host not in claimed_on and host.allocation_candidates:
                host.allocation_candidates[0]
        if len(made) < number:
            for server in made:
                del self.placement.allocations[server]
                del self.requests[server]
            return []
        return made

    def check_choice(self, host, request, claims, before):
        """Compare a choice with brute force over what there was."""
        slots = {
            disk: slot
            for disk, slot in before.items()
            if fakes.host_uuid(self.placement.disks[disk].host) == host.uuid
        }
        counts = self.counts(request, claims)
        if request.mapping == 'consolidated':
            least = next(
                number
                for number in itertools.count(1)
                if any(
                    sum(some) >= request.vdisks
                    for some in itertools.combinations(slots.values(), number)
                )
            )
            assert len(claims) == least
        else:
            most = max(counts.values())
            for disk, slot in slots.items():
                room = min(slot, request.vdisks_per_disk)
                count = counts.get(disk, 0)
                assert count >= most - 1 or count == room

    @staticmethod
    def counts(request, claims):
        return {
            disk: resources[placement_client.GB] // request.vdisk_gb
            for disk, resources in claims.items()
        }

    @stateful.invariant()
    def no_disk_is_over_committed(self):
        for disk in self.placement.disks.values():
            assert self.placement.room_gb(disk) >= 0
            assert (
                self.placement.used(disk, placement_client.MBPS)
                <= disk.total_mbps
            )

    @stateful.invariant()
    def servers_claim_what_they_asked_for(self):
        for server, request in self.requests.items():
            claims = self.placement.allocations[server]
            disks = [self.placement.disks[disk] for disk in claims]
            assert len({disk.host for disk in disks}) == 1
            assert request.media == flavor.ANY or {
                disk.medium for disk in disks
            } == {request.media}
            counts = self.counts(request, claims)
            assert sum(counts.values()) == request.vdisks
            for disk, resources in claims.items():
                expected = {
                    placement_client.GB: counts[disk] * request.vdisk_gb
                }
                if request.vdisk_mbps:
                    expected[placement_client.MBPS] = (
                        counts[disk] * request.vdisk_mbps
                    )
                assert resources == expected
                if request.mapping == flavor.ROUND_ROBIN:
                    assert counts[disk] <= request.vdisks_per_disk

    @stateful.rule(server=servers)
    def vdisks_are_bound_where_they_are_claimed(self, server):
        """The driver fills the claims, and the map has nothing to say."""
        request = self.requests[server]
        claims = {
            disk: resources[placement_client.GB]
            for disk, resources in self.placement.allocations[server].items()
        }
        per_disk = (
            request.vdisks_per_disk
            if request.mapping == flavor.ROUND_ROBIN
            else request.vdisks
        )
        host = self.placement.disks[next(iter(claims))].host
        disks = {disk.uuid: real_disk(disk) for disk in self.by_host[host]}
        actual = []
        for number in range(request.vdisks):
            held = collections.Counter(vdisk['disk'] for vdisk in actual)
            chosen = disk_choice.claimed_disk(
                list(disks.values()),
                server,
                claims,
                held,
                request.vdisk_gb,
                per_disk,
            )
            assert chosen is not None
            disk = disks[chosen]
            name = f'volume-{number}'
            vdisk = VDisk(name, name, server, request.vdisk_gb * GIB)
            disks[chosen] = dataclasses.replace(
                disk, vdisks=(*disk.vdisks, vdisk)
            )
            actual.append(
                {
                    'volume_id': name,
                    'disk': chosen,
                    'size_gb': request.vdisk_gb,
                }
            )
        assert {row.status for row in match_claims.match(claims, actual)} == {
            match_claims.OK
        }
        for disk in disks.values():
            claim = {server: claims.get(disk.uuid, 0)}
            assert ledger.reserved_gb(disk.vdisks, claim) == 0


def real_disk(disk):
    """Return an empty disk as the driver discovers it."""
    return fake_disks.make_disk(
        disk.uuid, disk.total_gb, disk.medium, mbps=disk.total_mbps
    )


LedgerTest = Ledger.TestCase
LedgerTest.settings = hypothesis.settings(
    max_examples=150, stateful_step_count=30
)
