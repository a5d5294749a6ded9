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

import copy
import dataclasses
import types
import unittest

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from nova.virt.libvirt import config
from oslotest import base

from nova_diskplacer.agent import numa_pinning
from nova_diskplacer.disks import discover
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_servers
from tests.fakes import disks as fake_disks
from tests.unit.nova_diskplacer.agent import guests

HOST = cpus.HostCpus(
    frozenset(range(8)),
    {0: frozenset({0, 1, 4, 5}), 1: frozenset({2, 3, 6, 7})},
)
ALL = cpus.NovaCpuSets()
OWNED = (
    '<cpu><numa><cell id="0" cpus="0" memory="9"/></numa></cpu>',
    '<numatune><memory mode="strict" nodeset="0"/></numatune>',
)


def make_disk(node, health=discover.OK):
    return fake_disks.make_disk(str(node), health=health, numa_node=node)


def decide(guest, *nodes, asking=True, host=HOST, config=ALL):
    return numa_pinning.decide(
        guest.seen(), asking, [make_disk(node) for node in nodes], host, config
    )


class AsksTest(base.BaseTestCase):
    def asks(self, **specs):
        profiles = {
            'near': types.SimpleNamespace(
                specs={'diskplacer:numa': 'preferred'}
            ),
            'far': types.SimpleNamespace(specs={}),
        }
        guest = guests.Guest(
            specs={f'diskplacer:{key}': specs[key] for key in specs}
        )
        return numa_pinning.requests_numa_node(guest.seen(), profiles)

    def test_flavor(self):
        self.assertTrue(self.asks(numa='required'))
        self.assertTrue(self.asks(numa='preferred'))
        self.assertFalse(self.asks(numa='none'))
        self.assertFalse(self.asks(vdisks='2'))

    def test_profile(self):
        self.assertTrue(self.asks(profile='near'))
        self.assertFalse(self.asks(profile='near', numa='none'))
        self.assertTrue(self.asks(profile='far', numa='required'))
        self.assertFalse(self.asks(profile='far'))
        self.assertFalse(self.asks(profile='unknown'))


class DecideTest(base.BaseTestCase):
    def test_pinned_to_the_node_of_the_disks(self):
        guest = guests.Guest(vcpus=2, iothreads=1)
        decision = decide(guest, 1, 1)
        there = frozenset({2, 3, 6, 7})
        self.assertEqual(
            (
                numa_pinning.SetMetadata(1),
                *(numa_pinning.Pin(thread, there) for thread in guest.threads),
            ),
            decision.steps,
        )
        self.assertEqual((1, ''), (decision.node, decision.problem))

    def test_within_what_nova_allows(self):
        guest = guests.Guest(vcpus=1, confined=frozenset({1, 2, 6}))
        config = cpus.NovaCpuSets(shared=frozenset({2, 3}))
        decision = decide(guest, 1, config=config)
        self.assertEqual({2}, decision.cpus)

    def test_a_node_with_fewer_cpus_than_vcpus(self):
        for vcpus, node in ((4, 0), (5, None)):
            decision = decide(guests.Guest(vcpus=vcpus), 0)
            self.assertEqual(node, decision.node)
        self.assertEqual((), decision.steps)
        self.assertEqual(
            'NUMA node 0 has 4 CPUs that it may use, which is too few for its '
            '5 vCPUs',
            decision.problem,
        )

    def test_only_what_is_not_right(self):
        guest = guests.Guest()
        guest.apply(decide(guest, 0).steps)
        guest.pins[guest.threads[1]] = frozenset({0})
        self.assertEqual(
            (numa_pinning.Pin(guest.threads[1], HOST.nodes[0]),),
            decide(guest, 0).steps,
        )

    def test_disks_have_moved(self):
        guest = guests.Guest()
        guest.apply(decide(guest, 0).steps)
        guest.apply(decide(guest, 1).steps)
        self.assertEqual(1, guest.mark)
        self.assertEqual({HOST.nodes[1]}, set(guest.pins.values()))

    def test_undone(self):
        for nodes, asking, problem in (
            ((0, 1), True, 'its disks are on several NUMA nodes'),
            ((0, None), True, 'the NUMA node of its disks is unknown'),
            (
                (2,),
                True,
                'NUMA node 2 has 0 CPUs that it may use, which is too few '
                'for its 2 vCPUs',
            ),
            ((0,), False, ''),
            ((), True, ''),
        ):
            guest = guests.Guest()
            guest.apply(decide(guest, 0).steps)
            decision = decide(guest, *nodes, asking=asking)
            self.assertEqual(problem, decision.problem)
            self.assertIsNone(decision.node)
            # until all is undone it stays marked
            self.assertEqual(
                numa_pinning.SetMetadata(None), decision.steps[-1]
            )
            guest.apply(decision.steps)
            self.assertEqual({HOST.online}, set(guest.pins.values()))
            self.assertIsNone(guest.mark)

    def test_an_iothread_of_any_number(self):
        guest = guests.Guest(
            iothreads=0,
            extra='<iothreads>1</iothreads>'
            '<iothreadids><iothread id="4"/></iothreadids>',
        )
        threads = [
            step.thread
            for step in decide(guest, 0).steps
            if isinstance(step, numa_pinning.Pin)
        ]
        self.assertIn(numa_pinning.Thread('iothread', 4), threads)

    def test_a_missing_disk_changes_nothing(self):
        guest = guests.Guest()
        guest.apply(decide(guest, 0).steps)
        disks = [make_disk(0), make_disk(None, discover.MISSING)]
        self.assertIsNone(
            numa_pinning.decide(guest.seen(), True, disks, HOST, ALL)
        )

    def test_nova_s_are_not_touched(self):
        for guest in (
            *(guests.Guest(extra=owned) for owned in OWNED),
            guests.Guest(
                specs={
                    'diskplacer:numa': 'required',
                    'hw:cpu_policy': 'dedicated',
                }
            ),
        ):
            self.assertIsNone(decide(guest, 0))

    def test_shared_explicitly(self):
        guest = guests.Guest(
            specs={'diskplacer:numa': 'required', 'hw:cpu_policy': 'shared'}
        )
        self.assertEqual(0, decide(guest, 0).node)

    def test_pinned_by_somebody_else(self):
        guest = guests.Guest()
        guest.pins[guest.threads[0]] = frozenset({0})
        decision = decide(guest, 0)
        self.assertEqual((), decision.steps)
        self.assertEqual('another tool has pinned it', decision.problem)

    def test_a_host_with_one_node(self):
        guest = guests.Guest()
        host = cpus.HostCpus(HOST.online, {0: HOST.online, 1: frozenset()})
        self.assertIsNone(decide(guest, 0, host=host))
        self.assertIsNone(decide(guest, None, host=host))
        guest.apply(decide(guest, 0).steps)
        guest.apply(decide(guest, 0, host=host).steps)
        self.assertEqual({HOST.online}, set(guest.pins.values()))

    def test_not_running(self):
        server = dataclasses.replace(guests.Guest().seen(), running=False)
        self.assertIsNone(
            numa_pinning.decide(server, True, [make_disk(0)], HOST, ALL)
        )

    def test_confined_to_cpus_that_are_offline(self):
        guest = guests.Guest(confined=frozenset({9}))
        self.assertIsNone(decide(guest, 0))


@unittest.skipUnless(
    hasattr(config, 'LibvirtConfigGuestMetaNovaFlavorExtraSpecs'),
    'Nova 31 does not write extra specs',
)
class NovaTest(base.BaseTestCase):
    """Servers in Nova's own words."""

    def server(self, **parts):
        flavor = config.LibvirtConfigGuestMetaNovaFlavor()
        flavor.name, flavor.id = 'near', '1'
        flavor.memory = flavor.disk = flavor.swap = flavor.ephemeral = 1
        flavor.vcpus = 2
        flavor.extra_specs = {'diskplacer:numa': 'required'}
        metadata = config.LibvirtConfigGuestMetaNovaInstance()
        metadata.name, metadata.package = 'near', '34.0.0'
        metadata.creationTime, metadata.flavor = 0, flavor
        guest = config.LibvirtConfigGuest()
        guest.uuid, guest.name = guests.UUID, 'instance-00000001'
        guest.virt_type, guest.os_type = 'kvm', 'hvm'
        guest.memory, guest.vcpus, guest.iothreads = 1024, 2, 1
        guest.metadata = [metadata]
        for name, value in parts.items():
            setattr(guest, name, value)
        return libvirt_servers.parse(guest.to_xml(), True)

    def decide(self, server):
        return numa_pinning.decide(
            server,
            numa_pinning.requests_numa_node(server, {}),
            [make_disk(1)],
            HOST,
            ALL,
        )

    def test_floating(self):
        decision = self.decide(self.server())
        self.assertEqual(HOST.nodes[1], decision.cpus)
        threads = [
            numa_pinning.Thread('vcpu', 0),
            numa_pinning.Thread('vcpu', 1),
            numa_pinning.Thread('emulator', 0),
        ]
        # servers have one since Nova 33
        if hasattr(config.LibvirtConfigGuest(), 'iothreads'):
            threads.append(numa_pinning.Thread('iothread', 1))
        self.assertEqual(threads, [step.thread for step in decision.steps[1:]])

    def test_confined(self):
        decision = self.decide(self.server(cpuset={0, 1, 2, 3}))
        self.assertEqual({2, 3}, decision.cpus)

    def test_with_nodes(self):
        cell = config.LibvirtConfigGuestCPUNUMACell()
        cell.id, cell.cpus, cell.memory = 0, {0, 1}, 1 << 20
        numa = config.LibvirtConfigGuestCPUNUMA()
        numa.cells = [cell]
        cpu = config.LibvirtConfigGuestCPU()
        cpu.numa = numa
        self.assertIsNone(self.decide(self.server(cpu=cpu)))


COUNT = 6
SOME = st.integers(1, 2**COUNT - 1).map(
    lambda bits: frozenset(cpu for cpu in range(COUNT) if bits >> cpu & 1)
)
NODES = st.integers(0, 2)


@st.composite
def situations(draw):
    """A server in any state, and what else it is decided by."""
    guest = guests.Guest(
        vcpus=draw(st.integers(1, 2)),
        iothreads=draw(st.integers(0, 1)),
        confined=draw(st.none() | SOME),
        extra=draw(st.sampled_from(['', '', '', *OWNED])),
    )
    guest.mark = draw(st.none() | NODES)
    for thread in guest.threads:
        pinned = draw(st.none() | SOME)
        if pinned and draw(st.booleans()):
            guest.pins[thread] = pinned
    online, first = draw(SOME), draw(SOME)
    # the CPUs of node 2, if any, are offline
    host = cpus.HostCpus(
        online, {0: online & first, 1: online - first, 2: frozenset()}
    )
    one = make_disk(draw(NODES))
    other = make_disk(draw(st.none() | NODES))
    disks = draw(st.sampled_from([[], [one], [one, one], [one, other]]))
    config = cpus.NovaCpuSets(draw(st.none() | SOME), draw(st.none() | SOME))
    return guest, (draw(st.booleans()), disks, host, config)


def put_right(guest, asked):
    decision = numa_pinning.decide(guest.seen(), *asked)
    if decision is not None:
        guest.apply(decision.steps)
    return decision


class PropertiesTest(base.BaseTestCase):
    @settings(max_examples=300)
    @given(situations())
    def test_where(self, situation):
        guest, asked = situation
        asking, disks, host, config = asked
        before = copy.deepcopy(guest)
        decision = put_right(guest, asked)
        whole = host.online if guest.confined is None else guest.confined
        foreign = before.mark is None and any(
            not whole & host.online <= allowed
            for allowed in before.allowed(host).values()
        )
        if guest.extra or foreign or decision is None:
            self.assertEqual(before.state, guest.state)
            return
        allowed = set(guest.allowed(host).values())
        if guest.mark is None:
            # as Nova had it
            self.assertEqual({whole & host.online}, allowed)
        else:
            self.assertTrue(asking)
            self.assertEqual({guest.mark}, {disk.numa_node for disk in disks})
            available = whole & config.available(host.online)
            self.assertEqual({host.nodes[guest.mark] & available}, allowed)
            self.assertNotIn(frozenset(), allowed)

    @settings(max_examples=300)
    @given(situations(), st.integers(0, 5))
    def test_interrupted(self, situation, done):
        guest, asked = situation
        other = copy.deepcopy(guest)
        decision = put_right(guest, asked)
        other.apply(decision.steps[:done] if decision else ())
        put_right(other, asked)
        host = asked[2]
        self.assertEqual(guest.mark, other.mark)
        self.assertEqual(guest.allowed(host), other.allowed(host))
        again = numa_pinning.decide(guest.seen(), *asked)
        self.assertFalse(again and again.steps)

    @settings(max_examples=200)
    @given(situations())
    def test_started_again(self, situation):
        guest, asked = situation
        decision = put_right(guest, asked)
        if decision is None or decision.node is None:
            return
        before = guest.mark, guest.allowed(asked[2])
        guest.start()
        put_right(guest, asked)
        self.assertEqual(before, (guest.mark, guest.allowed(asked[2])))
