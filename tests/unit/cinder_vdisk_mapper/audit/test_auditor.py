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

import contextlib
import dataclasses
import functools
import pathlib
import unittest
import uuid
from unittest import mock

import fixtures
import testtools
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper.audit import auditor
from cinder_vdisk_mapper.audit import claim_checks
from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import host_reader
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement.client import GB
from nova_diskplacer.placement.client import MBPS
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

SERVER = str(uuid.UUID(int=1000000))


def id_of(number):
    """Return the id of a volume."""
    return str(uuid.UUID(int=number))


class Records:
    """Cinder's database: records, whose deleted ones must be asked for.

    ``asked`` counts what was asked.
    """

    def __init__(self, records):
        self.all = list(records)
        self.asked = 0

    def of_host(self):
        self.asked += 1
        return [one for one in self.all if not one.deleted]

    def others(self, names):
        self.asked += 1
        names = set(names)
        return [one for one in self.all if one.vdisk in names]

    def record(self, record, disk):
        self.all[self.all.index(record)] = dataclasses.replace(
            record, disk=disk
        )
        return True


class Placement(fakes.Placement):
    """Counts what is asked."""

    asked = 0

    def provider_by_name(self, name):
        self.asked += 1
        return placement_client.Provider('root', name, 0, None, 'root')

    def provider(self, uuid):
        self.asked += 1
        return placement_client.Provider(uuid, uuid, 0, 'root', 'root')

    def disks(self, root):
        self.asked += 1
        return [self.provider(uuid) for uuid in self.offered]

    def _answer(self):
        self.asked += 1
        super()._answer()


class AuditorTestCase(testtools.TestCase):
    """A host with two disks."""

    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.locks = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        conf.config(lock_path=str(self.locks), group='oslo_concurrency')
        self.held = []
        self.lock = lock = locks.hold

        @contextlib.contextmanager
        def noted(name, **kwargs):
            with lock(name, **kwargs):
                self.held.append(name)
                try:
                    yield
                finally:
                    self.held.remove(name)

        patch = mock.patch.object(locks, 'hold', noted)
        patch.start()
        self.addCleanup(patch.stop)
        self.nova = state.Nova()
        self.asked_nova = 0

    def host(self, records, held):
        """Return the host with these records and vdisks, by disk."""
        disks = [
            fake_disks.make_disk(name, 10000, held=held.get(name, ()))
            for name in ('d1', 'd2')
        ]
        backend = fakes.Backend(*disks)
        backend.looks = 0
        see = backend.disks

        def disks_(wait=False):
            backend.looks += 1
            return see(wait)

        backend.disks = disks_
        found = Placement(*disks)
        for disk in disks:
            inventory.sync_disk(
                found, disk.uuid, functools.partial(backend.disk, disk.uuid)
            )
        found.asked = 0
        return auditor.Auditor(
            host_reader.HostReader(
                (backend,),
                found,
                Records(records),
                self.ask,
                frozenset,
                'host1',
            )
        )

    def ask(self, consumers):
        self.assertEqual([], self.held)
        self.asked_nova += 1
        return self.nova

    def orphans(self, number):
        """Return a host with so many orphans on each disk."""
        records = [
            Record(id_of(n), f'volume-{id_of(n)}', 'd1', 1, '', deleted=True)
            for n in range(2 * number)
        ]
        held = [VDisk(one.vdisk, one.id, None, GIB) for one in records]
        return self.host(records, {'d1': held[:number], 'd2': held[number:]})

    def effort(self, number):
        """Repair orphans; returns looks, and questions to each service."""
        host = self.orphans(number)
        self.asked_nova = 0
        found = host.audit()
        self.assertEqual(2 * number, len(found))
        self.assertEqual(2 * number, len(host.repair(found)))
        effort = (
            host.reader.backends[0].looks,
            host.reader.records.asked,
            host.reader.placement.asked,
            self.asked_nova,
        )
        self.assertEqual([], host.audit())
        return effort


class Trees(Placement):
    """Placement with the disks of two hosts.

    ``nodes`` maps disks to the compute nodes that their providers are below,
    None for a provider without a tree.
    """

    def __init__(self, disks, nodes):
        super().__init__(*disks)
        self.nodes = nodes

    def provider(self, uuid):
        node = self.nodes[uuid]
        return placement_client.Provider(
            uuid, f'{node}_disk_{uuid}', 0, node, node or uuid
        )

    def provider_by_name(self, name):
        if name not in self.nodes.values():
            return None
        return placement_client.Provider(name, name, 0, None, name)

    def disks(self, root):
        return [
            self.provider(uuid)
            for uuid, node in self.nodes.items()
            if node == root
        ]


class TreesTestCase(AuditorTestCase):
    """A disk was taken from host1 to host2; each has one of its own."""

    def setUp(self):
        super().setUp()
        self.nodes = {'d1': 'host1', 'd2': 'host2'}
        self.disks = {
            uuid: fake_disks.make_disk(uuid) for uuid in ('d1', 'd2', 'd3')
        }
        self.placement = None

    def found(self, name, *disks):
        """Return what an audit finds and repairs on a host with disks."""
        self.placement = Trees(self.disks.values(), self.nodes)
        for disk in self.disks.values():
            inventory.sync_disk(
                self.placement, disk.uuid, lambda disk=disk: disk
            )
        before = dict(self.placement.offered)
        host = auditor.Auditor(
            host_reader.HostReader(
                (fakes.Backend(*disks),),
                self.placement,
                Records([]),
                self.ask,
                frozenset,
                name,
            )
        )
        found = host.audit()
        host.repair(found)
        self.assertEqual(before, self.placement.offered)
        return [(one.kind, one.disk) for one in found]

    def test_the_host_that_it_was_taken_from(self):
        """Its mount point is still there."""
        self.nodes['d3'] = 'host2'
        gone = dataclasses.replace(
            self.disks['d3'], health=discover.MISSING, vdisks=()
        )
        self.assertEqual(
            [('provider-elsewhere', 'd3')],
            self.found('host1', self.disks['d1'], gone),
        )

    def test_the_host_that_it_was_taken_to(self):
        self.nodes['d3'] = 'host1'
        self.disks['d3'] = dataclasses.replace(
            self.disks['d3'], health=discover.MISSING
        )
        here = fake_disks.make_disk('d3')
        self.assertEqual(
            [('provider-elsewhere', 'd3')],
            self.found('host2', self.disks['d2'], here),
        )
        # it has no other disk
        self.nodes['d2'] = 'host3'
        self.nodes['d4'] = 'host2'
        self.assertEqual(
            [('provider-elsewhere', 'd3'), ('provider-without-disk', 'd4')],
            self.found('host2', here),
        )

    def test_a_disk_of_no_tree(self):
        self.nodes['d3'] = None
        self.assertEqual(
            [('no-provider', 'd3')],
            self.found('host1', self.disks['d1'], self.disks['d3']),
        )

    def test_a_name_that_placement_does_not_know(self):
        self.nodes['d3'] = 'host1'
        self.assertEqual(
            [('provider-without-disk', 'd3')],
            self.found('host9', self.disks['d1']),
        )
        error = self.assertRaises(
            exception.PlacementError,
            self.found,
            'host9',
            self.disks['d1'],
            self.disks['d2'],
        )
        self.assertIn('[diskplacer] compute_node in cinder.conf', str(error))


class EffortTestCase(AuditorTestCase):
    def test_it_does_not_grow_with_what_is_found(self):
        self.assertEqual(self.effort(10), self.effort(100))


class LockTestCase(AuditorTestCase):
    def volume(self, number=1, disk='d1', **fields):
        """Return a volume's record and its vdisk."""
        id_ = id_of(number)
        record = Record(id_, f'volume-{id_}', disk, 2, 'available', **fields)
        return record, VDisk(record.vdisk, id_, None, 2 * GIB)

    def test_locks_of_a_killed_audit(self):
        for name in ('vdisk-disk-d1', '.vdisk-disk-d2-x'):
            (self.locks / name).touch()
        self.host([], {}).repair([])
        self.assertEqual([], [*self.locks.iterdir()])

    def test_what_is_decided_under_the_lock(self):
        """All but the deletion of orphans is looked at and done locked."""
        unrecorded, there = self.volume(1, None)
        small, _ = self.volume(2)
        short = VDisk(small.vdisk, small.id, None, GIB)
        twice, copy = self.volume(3)
        gone, orphan = self.volume(4, deleted=True)
        host = self.host(
            [unrecorded, small, twice, gone],
            {'d1': [there, short, copy, orphan], 'd2': [copy]},
        )
        (backend,) = host.reader.backends
        done = []

        def noted(what, function):
            def call(*args, **kwargs):
                done.append((what, *self.held))
                return function(*args, **kwargs)

            return call

        found = host.audit()
        backend.delete = noted('delete', backend.delete)
        backend.extend = noted('extend', backend.extend)
        host.reader.records.record = noted(
            'record', host.reader.records.record
        )
        backend.disks = noted('look', backend.disks)
        repaired = host.repair(found)
        self.assertEqual(
            {'not-recorded', 'wrong-size', 'second-copy', 'orphan'},
            {one.kind for one in repaired},
        )
        self.assertEqual(
            [
                ('look',),
                ('look', 'disk-d1'),
                ('record', 'disk-d1'),
                ('look', 'disk-d1'),
                ('extend', 'disk-d1'),
                ('delete',),
                ('look', 'disk-d2'),
                ('delete', 'disk-d2'),
            ],
            done,
        )
        self.assertEqual([], host.audit())

    def moved(self):
        """Return a host with two volumes of moves that were interrupted."""
        records, held = zip(*map(self.volume, (1, 2)), strict=True)
        host = self.host(records, {'d1': held, 'd2': held})
        for record in records:
            host.reader.backends[0].link('d2', record.vdisk)
        return host, records

    def test_the_volume_is_where_its_link_leads(self):
        host, records = self.moved()
        record = host.reader.records.record

        def locked(one, disk):
            self.assertIn(f'volume-{one.id}', self.held)
            return record(one, disk)

        host.reader.records.record = locked
        found = host.audit()
        moves = [one for one in found if one.repair == findings.FOLLOW]
        self.assertEqual(moves, host.repair(found))
        self.assertEqual(
            ['d2', 'd2'], [one.disk for one in host.reader.records.all]
        )
        # what the moves have left is deleted now
        self.assertEqual(2, len(host.repair(host.audit())))
        self.assertEqual((), host.reader.backends[0].known['d1'].vdisks)
        self.assertEqual([], host.audit())

    def test_what_another_process_moves(self):
        host, (first, _) = self.moved()
        log = self.useFixture(fixtures.FakeLogger())
        found = host.audit()
        with self.lock(f'volume-{first.id}'):
            self.assertEqual(1, len(host.repair(found)))
        self.assertIn(f'works on volume-{first.id}', log.output)
        self.assertEqual(
            ['d1', 'd2'], [one.disk for one in host.reader.records.all]
        )

    def test_what_another_process_has_moved_back(self):
        host, records = self.moved()
        found = host.audit()
        for record in records:
            host.reader.backends[0].link('d1', record.vdisk)
        self.assertEqual([], host.repair(found))

    def test_the_link_may_lead_to_the_volume(self):
        """A copy is not recorded while the disk of the link is away."""
        record, held = self.volume(1, 'd2')
        host = self.host([record], {'d1': [held]})
        host.reader.backends[0].link('d3', record.vdisk)
        with mock.patch.object(
            host.reader.backends[0], 'forgotten', return_value=False
        ):
            (found,) = [
                one for one in host.audit() if one.kind == 'not-recorded'
            ]
        self.assertEqual('', found.repair)

    def test_link_of_a_volume_that_is_moved(self):
        record, held = self.volume(1, 'd1')
        record = dataclasses.replace(record, status='in-use')
        host = self.host([record], {'d1': [held]})
        backend = host.reader.backends[0]
        log = self.useFixture(fixtures.FakeLogger())
        (found,) = host.audit()
        self.assertEqual('missing-link', found.kind)
        with self.lock(f'volume-{record.id}'):
            self.assertEqual([], host.repair([found]))
        self.assertIn(f'works on volume-{record.id}', log.output)
        # a drain has changed it since the host was looked at
        look, links = backend.disks, dict(backend.linked)
        backend.links = lambda: links
        backend.disks = lambda **_: backend.link('d2', record.vdisk) or look()
        self.assertEqual([], host.repair([found]))
        self.assertEqual('d2', backend.linked_disk(record.vdisk))
        self.assertIn('leads to disk d2 meanwhile', log.output)
        backend.disks = look
        backend.unlink(record.vdisk)
        self.assertEqual([found], host.repair([found]))
        self.assertEqual('d1', backend.linked_disk(record.vdisk))

    def test_devices(self):
        record, held = self.volume(1, 'd1')
        record = dataclasses.replace(record, status='in-use')
        host = self.host([record], {'d1': [held]})
        backend, name = host.reader.backends[0], record.vdisk
        backend.link('d1', name, to_device=True)
        backend.recorded_move = lambda name: None
        self.assertEqual([], host.audit())
        # the host was rebooted, and its server is in the way
        backend.has_device = {('d2', name)}
        found = host.audit()
        self.assertEqual(
            [('missing-device', 'd1'), ('unused-device', 'd2')],
            [(one.kind, one.disk) for one in found],
        )
        log = self.useFixture(fixtures.FakeLogger())
        with self.lock(f'volume-{record.id}'):
            self.assertEqual([], host.repair(found))
        self.assertIn(f'works on volume-{record.id}', log.output)
        self.assertEqual(found, host.repair(found))
        self.assertEqual({('d1', name)}, backend.has_device)
        self.assertEqual([], host.audit())

    def test_link_to_what_a_volume_is_attached_as(self):
        for connection, is_device in (('local', True), ('gpfs', False)):
            record, held = self.volume(1, 'd1')
            record = dataclasses.replace(
                record,
                status='in-use',
                connections=frozenset((connection,)),
            )
            host = self.host([record], {'d1': [held]})
            backend, name = host.reader.backends[0], record.vdisk
            backend.makes_devices = True
            backend.recorded_move = lambda name: None
            found = host.audit()
            self.assertEqual(['missing-link'], [one.kind for one in found])
            self.assertEqual(found, host.repair(found))
            self.assertEqual('d1', backend.linked_disk(name))
            self.assertIs(is_device, backend.is_linked_to_device(name))
            self.assertEqual([], host.audit())
        # as an earlier release repaired it
        host.reader.records.all[0] = dataclasses.replace(
            record, connections=frozenset(('local',))
        )
        found = host.audit()
        self.assertEqual(['missing-device'], [one.kind for one in found])
        self.assertEqual(found, host.repair(found))
        self.assertTrue(backend.is_linked_to_device(name))
        self.assertEqual([], host.audit())
        # a logical volume is a device itself
        backend.link('d1', name, to_device=False)
        backend.has_device.clear()
        backend.makes_devices = False
        self.assertEqual([], host.audit())

    def test_a_device_that_is_linked_meanwhile(self):
        record, held = self.volume(1, 'd1')
        host = self.host([record], {'d1': [held]})
        backend, name = host.reader.backends[0], record.vdisk
        backend.recorded_move = lambda name: None
        backend.has_device = {('d1', name)}
        (found,) = host.audit()
        log = self.useFixture(fixtures.FakeLogger())
        look = backend.disks
        links = dict(backend.linked)
        backend.links = lambda: links
        backend.disks = lambda **_: backend.link('d1', name, True) or look()
        self.assertEqual([], host.repair([found]))
        self.assertIn('leads there meanwhile', log.output)
        self.assertEqual({('d1', name)}, backend.has_device)

    def test_what_changed_before_the_lock_was_taken(self):
        unrecorded, there = self.volume(1, None)
        gone, orphan = self.volume(2, deleted=True)
        host = self.host([unrecorded, gone], {'d1': [there, orphan]})
        found = host.audit()
        self.assertEqual(2, len(found))
        lock = locks.hold

        @contextlib.contextmanager
        def late(name):
            # somebody else held it until then
            host.reader.records.all = [
                dataclasses.replace(
                    unrecorded, status='deleting', settled=False
                ),
                dataclasses.replace(gone, deleted=False),
            ]
            with lock(name):
                yield

        with mock.patch.object(locks, 'hold', late):
            self.assertEqual([], host.repair(found))
        self.assertEqual(
            {there, orphan}, {*host.reader.backends[0].known['d1'].vdisks}
        )

    def test_piece_of_a_stripe(self):
        name = f'volume-{id_of(1)}'
        record = Record(id_of(1), name, 'd1,d2', 7, 'available')
        host = self.host(
            [record],
            {
                uuid: [
                    VDisk(
                        name,
                        id_of(1),
                        None,
                        gb * GIB,
                        stripe=Location(('d1', 'd2')),
                    )
                ]
                for uuid, gb in (('d1', 4), ('d2', 3))
            },
        )
        (found,) = host.audit()
        self.assertEqual(('wrong-size', 'd2'), (found.kind, found.disk))
        self.assertEqual([found], host.repair([found]))
        (piece,) = host.reader.backends[0].disk('d2').vdisks
        self.assertEqual(4, piece.size_gb)

    def test_one_that_cannot_be_repaired_keeps_no_other(self):
        _, first = self.volume(1)
        host = self.orphans(2)
        (backend,) = host.reader.backends
        delete = backend.delete

        def refuse(disk, name):
            if name == first.name:
                raise exception.DiskError('in use')
            delete(disk, name)

        backend.delete = refuse
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual(3, len(host.repair(host.audit())))
        self.assertIn(f'orphan, {first.name} on disk d1: in use', log.output)
        self.assertEqual([first.name], [one.vdisk for one in host.audit()])

    def test_claim(self):
        record, held = self.volume(1)
        held = dataclasses.replace(held, server_id=SERVER)
        host = self.host([record], {'d1': [held]})
        request = flavor.VDiskRequest(vdisks=1, vdisk_gb=2, vdisk_mbps=5)
        self.nova = state.Nova(((SERVER, request),))
        found = host.audit()
        self.assertEqual(['unclaimed'], [one.kind for one in found])
        with mock.patch.object(inventory, 'ensure_claim') as claim:
            self.assertEqual(found, host.repair(found))
        whole = {placement_client.GB: 2, placement_client.MBPS: 5}
        self.assertEqual(('d1', SERVER, whole), claim.call_args.args[1:4])


ID, OTHER = (str(uuid.UUID(int=number)) for number in (1, 2))
CLAIMANT = str(uuid.UUID(int=100))


def volume(id_=ID, disk='d1', size_gb=2, **fields):
    """Return a volume's record."""
    fields = {'status': 'available', **fields}
    return Record(id_, f'volume-{id_}', disk, size_gb, **fields)


def snapshot(id_=ID, disk='d1', size_gb=2, **fields):
    """Return a snapshot's record."""
    fields = {'status': 'available', **fields}
    return Record(id_, f'snapshot-{id_}', disk, size_gb, **fields)


def vdisk(id_=ID, kind='volume', size_gb=2, owner=None, server=None):
    """Return a vdisk of a volume or snapshot."""
    return VDisk(f'{kind}-{id_}', owner or id_, server, int(size_gb * GIB))


def offer(disk, claims=None, mbps=None):
    """Return what Placement should have of a disk.

    :param claims: GiB by server.
    :param mbps: MB/s by server.
    """
    claims, mbps = claims or {}, mbps or {}
    claims = {
        one: {
            name: amount[one]
            for name, amount in (
                (placement_client.GB, claims),
                (placement_client.MBPS, mbps),
            )
            if one in amount
        }
        for one in claims.keys() | mbps.keys()
    }
    figures = inventory.compute_figures(disk, claims)
    return state.ProviderState(inventories(figures), claims)


def inventories(figures):
    """Return the inventories that say so, as Placement lists them."""
    return {
        name: {
            'total': total,
            'reserved': reserved,
            'min_unit': 1,
            'max_unit': 2147483647,
            'step_size': 1,
            'allocation_ratio': 1.0,
        }
        for name, total, reserved in (
            (
                placement_client.GB,
                figures.total_gb,
                min(figures.offered.reserved_gb, figures.total_gb),
            ),
            (placement_client.MBPS, figures.total_mbps, 0),
        )
    }


def make_state(records=(), disks=None, providers=None, **fields):
    """Return a state in which Placement is right."""
    disks = {'d1': (), 'd2': ()} if disks is None else disks
    found = tuple(
        held
        if isinstance(held, discover.Disk)
        else fake_disks.make_disk(name, held=held)
        for name, held in disks.items()
    )
    return state.HostState(
        records=tuple(records),
        disks=found,
        providers={disk.uuid: offer(disk) for disk in found}
        | (providers or {}),
        **fields,
    )


class AuditTestCase(unittest.TestCase):
    def assertFound(self, expected, state):
        """Compare (kind, disk, repair) of the findings; returns these."""
        found = auditor.compare(state)
        self.assertEqual(
            expected, [(one.kind, one.disk, one.repair) for one in found]
        )
        for one in found:
            # what is not repaired comes with what to do
            self.assertNotEqual('', one.repair or one.advice, one)
        return found


class CompareTestCase(AuditTestCase):
    def test_agrees(self):
        self.assertFound(
            [],
            make_state(
                [volume(), snapshot(OTHER), volume(CLAIMANT, None)],
                {'d1': [vdisk(), vdisk(OTHER, 'snapshot')], 'd2': []},
            ),
        )

    def test_migrated_volume_is_named_by_its_second_id(self):
        record = dataclasses.replace(volume(), vdisk=f'volume-{OTHER}')
        self.assertFound([], make_state([record], {'d1': [vdisk(OTHER)]}))
        self.assertFound(
            [], make_state([record], {'d1': [vdisk(OTHER, owner=ID)]})
        )

    def test_orphan_of_deleted_volume(self):
        for record, held in (
            (volume(deleted=True), vdisk()),
            (snapshot(deleted=True), vdisk(kind='snapshot')),
            (volume(deleted=True, here=False), vdisk()),
        ):
            self.assertFound(
                [('orphan', 'd2', findings.DELETE)],
                make_state([record], {'d2': [held]}),
            )

    def test_orphan_on_read_only_disk(self):
        disk = fake_disks.make_disk(
            'd1', health=discover.READ_ONLY, held=[vdisk()]
        )
        figures = inventory.fully_reserved(offer(disk).inventories, {})
        self.assertFound(
            [('orphan', 'd1', '')],
            make_state(
                [volume(deleted=True)],
                {'d1': disk},
                {'d1': state.ProviderState(inventories(figures), {})},
            ),
        )

    def test_unknown_is_not_removed(self):
        self.assertFound(
            [('unknown', 'd1', '')], make_state([], {'d1': [vdisk()]})
        )

    def test_volume_of_another_host(self):
        self.assertFound(
            [('elsewhere', 'd1', '')],
            make_state([volume(here=False)], {'d1': [vdisk()]}),
        )

    def test_volume_that_follows_its_server(self):
        """The vdisk here may be the volume before the database says so."""
        record = volume(here=False)
        self.assertFound(
            [],
            make_state(
                [record],
                {'d1': [vdisk()]},
                moving=frozenset((record.vdisk,)),
            ),
        )

    def test_what_a_migrated_volume_left_behind(self):
        # ID was migrated to OTHER's vdisk; OTHER's row took the old one's
        # name and was deleted
        moved = dataclasses.replace(volume(), vdisk=f'volume-{OTHER}')
        gone = dataclasses.replace(
            volume(OTHER, deleted=True), vdisk=f'volume-{ID}'
        )
        self.assertFound(
            [('elsewhere', 'd2', '')],
            make_state([moved, gone], {'d1': [vdisk(OTHER)], 'd2': [vdisk()]}),
        )

    def test_foreign_and_unmanaged_are_left_alone(self):
        foreign = [
            VDisk(name, '', None, GIB)
            for name in (
                'backup.raw',
                f'unmanaged-{ID}',
                f'volume-{ID}.old',
                'volume-1',
                'snapshot-1',
            )
        ]
        self.assertFound([], make_state([], {'d1': foreign}))

    def test_second_copy(self):
        self.assertFound(
            [('second-copy', 'd2', findings.DELETE)],
            make_state([volume()], {'d1': [vdisk()], 'd2': [vdisk()]}),
        )

    def test_the_disk_of_the_link_is_not_the_recorded_one(self):
        """What it leads to may be the volume: no copy is deleted or taken."""
        for linked in (None, 'd3'):
            found = auditor.compare(
                make_state(
                    [volume()],
                    {'d1': [vdisk()], 'd2': [vdisk()]},
                    links={volume().vdisk: linked},
                )
            )
            self.assertEqual(
                {'second-copy': ''},
                {
                    one.kind: one.repair
                    for one in found
                    if not one.kind.endswith('-link')
                },
            )
        self.assertFound(
            [('not-recorded', 'd1', ''), ('unknown-link', '', '')],
            make_state(
                [volume(disk=None)],
                {'d1': [vdisk()]},
                links={volume().vdisk: None},
            ),
        )

    def test_copies_of_a_drain(self):
        for links, draining, kinds in (
            ({}, True, {'second-copy': ''}),
            (
                {volume().vdisk: 'd2'},
                False,
                {'second-copy': '', 'unfinished-move': findings.FOLLOW},
            ),
        ):
            disk = fake_disks.make_disk(
                'd1', held=[vdisk()], draining=draining
            )
            found = auditor.compare(
                make_state(
                    [volume()], {'d1': disk, 'd2': [vdisk()]}, links=links
                )
            )
            self.assertEqual(kinds, {one.kind: one.repair for one in found})
            self.assertIn('disk drain d1', found[0].advice)

    def test_second_copy_of_what_is_not_whole(self):
        for held in (vdisk(size_gb=1), vdisk(owner=OTHER)):
            found = auditor.compare(
                make_state([volume()], {'d1': [held], 'd2': [vdisk()]})
            )
            # not even extended: that would make it look whole
            self.assertEqual({''}, {one.repair for one in found})

    def test_not_recorded(self):
        for disk in (None, 'd2'):
            self.assertFound(
                [('not-recorded', 'd1', findings.RECORD)],
                make_state([volume(disk=disk)], {'d1': [vdisk()], 'd2': []}),
            )
        self.assertFound(
            [('not-recorded', 'd1', findings.RECORD)],
            make_state(
                [snapshot(disk=None, status='error')],
                {'d1': [vdisk(kind='snapshot')]},
            ),
        )

    def test_not_recorded_and_not_clear(self):
        for disks in (
            {'d1': [vdisk()], 'd2': [vdisk()]},
            {'d1': [vdisk(size_gb=1)]},
        ):
            found = auditor.compare(make_state([volume(disk=None)], disks))
            self.assertEqual({''}, {one.repair for one in found})

    def test_copy_while_the_recorded_disk_is_away(self):
        for forgotten in (frozenset(), frozenset(['d9'])):
            kind = 'disk-forgotten' if forgotten else 'disk-missing'
            self.assertFound(
                [(kind, 'd9', ''), ('not-recorded', 'd1', '')],
                make_state(
                    [volume(disk='d9')],
                    {'d1': [vdisk()]},
                    forgotten=forgotten,
                ),
            )

    def test_lost(self):
        for record in (volume(), snapshot()):
            self.assertFound([('lost', 'd1', '')], make_state([record]))

    def test_wrong_size(self):
        self.assertFound(
            [('wrong-size', 'd1', findings.EXTEND)],
            make_state([volume()], {'d1': [vdisk(size_gb=1.5)]}),
        )
        found = self.assertFound(
            [('wrong-size', 'd1', '')],
            make_state([volume()], {'d1': [vdisk(size_gb=3)]}),
        )
        self.assertIn('repeat it to 3 GiB', found[0].advice)
        self.assertFound(
            [('wrong-size', 'd1', '')],
            make_state(
                [snapshot()], {'d1': [vdisk(kind='snapshot', size_gb=1)]}
            ),
        )

    def test_wrong_owner(self):
        self.assertFound(
            [('wrong-owner', 'd1', '')],
            make_state([volume()], {'d1': [vdisk(owner=OTHER)]}),
        )

    def test_what_is_worked_on_is_left_alone(self):
        for held in (
            {'d1': [], 'd2': []},
            {'d2': [vdisk()]},
            {'d1': [vdisk(size_gb=1)], 'd2': [vdisk()]},
        ):
            record = volume(settled=False, status='creating')
            self.assertFound([], make_state([record], held))
            stuck = dataclasses.replace(record, stuck=True)
            self.assertFound([('stuck', 'd1', '')], make_state([stuck], held))

    def test_no_provider(self):
        found = make_state()
        self.assertFound(
            [('no-provider', 'd1', ''), ('no-provider', 'd2', '')],
            dataclasses.replace(found, providers={}),
        )
        away = discover.missing('d1', '/disks/d1')
        self.assertFound([], state.HostState((), (away,), {}))

    def test_wrong_figures(self):
        full = fake_disks.make_disk('d1', held=[vdisk(server=CLAIMANT)])
        empty = fake_disks.make_disk('d1')
        self.assertFound(
            [('wrong-figures', 'd1', findings.PUBLISH)],
            make_state([volume()], {'d1': full}, {'d1': offer(empty)}),
        )
        self.assertFound(
            [],
            make_state(
                [volume()], {'d1': full}, {'d1': offer(full, {CLAIMANT: 2})}
            ),
        )

    def test_missing_disk_that_is_offered(self):
        self.assertFound(
            [('wrong-figures', 'd1', findings.PUBLISH)],
            make_state(
                [],
                {'d1': discover.missing('d1', '/disks/d1')},
                {'d1': offer(fake_disks.make_disk('d1'))},
            ),
        )

    def test_striped(self):
        pieces = {
            uuid: [dataclasses.replace(vdisk(), stripe=Location(('d1', 'd2')))]
            for uuid in ('d1', 'd2')
        }
        record = volume(disk='d1,d2', size_gb=4)
        self.assertFound([], make_state([record], pieces))
        self.assertFound(
            [], make_state([volume(disk='d1,d2', size_gb=3)], pieces)
        )
        self.assertFound(
            [('lost', 'd2', '')],
            make_state([record], {'d1': pieces['d1'], 'd2': []}),
        )
        self.assertFound(
            [
                ('wrong-size', 'd1', findings.EXTEND),
                ('wrong-size', 'd2', findings.EXTEND),
            ],
            make_state([volume(disk='d1,d2', size_gb=5)], pieces),
        )
        missing = fake_disks.make_disk('d2', health='missing')
        self.assertFound(
            [
                ('disk-missing', 'd2', ''),
                ('wrong-figures', 'd2', findings.PUBLISH),
            ],
            make_state([record], {'d1': pieces['d1'], 'd2': missing}),
        )
        self.assertFound(
            [('second-copy', 'd3', '')],
            make_state([record], {**pieces, 'd3': pieces['d1']}),
        )
        self.assertFound(
            [('wrong-stripe', 'd1', ''), ('wrong-stripe', 'd2', '')],
            make_state([volume(disk='d2,d1', size_gb=4)], pieces),
        )
        # its creation was interrupted
        self.assertFound(
            [('not-recorded', 'd1', ''), ('not-recorded', 'd2', '')],
            make_state([volume(disk=None, size_gb=4)], pieces),
        )
        self.assertFound(
            [
                ('orphan', 'd1', findings.DELETE),
                ('orphan', 'd2', findings.DELETE),
            ],
            make_state([dataclasses.replace(record, deleted=True)], pieces),
        )

    def test_elastic(self):
        legs = ('d1', 'd1', 'd2', 'd1')

        def piece(gb, **changes):
            changes = {'stripe': legs, 'minimum': 1, **changes}
            return dataclasses.replace(vdisk(size_gb=gb), **changes)

        record = volume(disk=','.join(legs), size_gb=8)
        self.assertFound(
            [], make_state([record], {'d1': [piece(6)], 'd2': [piece(2)]})
        )
        self.assertFound(
            [('wrong-size', 'd1', findings.EXTEND)],
            make_state([record], {'d1': [piece(5)], 'd2': [piece(2)]}),
        )
        # a leg is moved
        coming = piece(2, usable=False, moving=True)
        held = {'d1': [piece(6)], 'd2': [piece(2)], 'd3': [coming]}
        host = make_state([record], held)
        self.assertFound([], host)
        self.assertFound(
            [('unfinished-move', 'd3', '')],
            dataclasses.replace(host, moves_legs=False),
        )

    def test_claims_of_legs(self):
        legs = ('d1', 'd1', 'd2', 'd1')
        request = flavor.VDiskRequest(
            1,
            8,
            vdisk_mbps=50,
            mapping='elastic',
            stripe_disks=1,
            widest_disks=4,
        )

        def lacks(claims, moving=False):
            held = [
                (
                    disk,
                    dataclasses.replace(
                        vdisk(size_gb=gb),
                        stripe=Location(legs),
                        minimum=1,
                        moving=moved,
                    ),
                )
                for disk, gb, moved in (
                    ('d1', 6, False),
                    ('d2', 2, False),
                    *((('d3', 2, True),) if moving else ()),
                )
            ]
            claims = {
                disk: {
                    name: amount
                    for name, amount in zip((GB, MBPS), both, strict=True)
                    if amount
                }
                for disk, both in claims.items()
            }
            found, nowhere = claim_checks.lacks(request, held, claims)
            return [(one.disk, one.gb, one.mbps) for one in found], nowhere

        self.assertEqual(([], 0), lacks({'d1': (6, 38), 'd2': (2, 12)}))
        self.assertEqual(([('d2', 2, 12)], 0), lacks({'d1': (6, 38)}))
        # the claim of a leg that is moved has followed
        self.assertEqual(
            ([], 0),
            lacks({'d1': (4, 26), 'd2': (2, 12), 'd3': (2, 12)}, True),
        )

    def test_oversold(self):
        disk = fake_disks.make_disk('d1', total_gb=3, held=[vdisk()])
        self.assertFound(
            [('oversold', 'd1', '')],
            make_state(
                [volume()], {'d1': disk}, {'d1': offer(disk, {CLAIMANT: 2})}
            ),
        )

    def test_claim_without_server(self):
        disk = fake_disks.make_disk('d1')
        found = self.assertFound(
            [('claim-without-server', 'd1', '')],
            make_state(
                [],
                {'d1': disk},
                {'d1': offer(disk, {CLAIMANT: 2, OTHER: 1})},
                nova=state.Nova(gone=frozenset([CLAIMANT])),
            ),
        )
        self.assertEqual(CLAIMANT, found[0].owner)

    def migration(
        self, is_over, claims, held=2, status='error', total_gb=3, **others
    ):
        """Return a state with a claim of a migration of a server."""
        disk = fake_disks.make_disk(
            'd1', total_gb, held=[vdisk(size_gb=held, server=CLAIMANT)]
        )
        migration = state.Migration(CLAIMANT, status, is_over, **others)
        return make_state(
            [volume(size_gb=held)],
            {'d1': disk},
            {'d1': offer(disk, claims)},
            nova=state.Nova(migrations={OTHER: migration}),
        )

    def test_blank_volume_without_server(self):
        blank = volume(status='attaching', blank_of=CLAIMANT)
        unbound = volume(OTHER, None, status='available', blank_of=CLAIMANT)
        gone = state.Nova(gone=frozenset([CLAIMANT]))
        for record in (blank, unbound):
            one, *_ = [
                one
                for one in auditor.compare(
                    state.HostState((record,), (), {}, nova=gone)
                )
                if one.kind == 'blank-volume-without-server'
            ]
            self.assertEqual('', one.repair)
            self.assertIn(f'delete {record.id}', one.advice)
            self.assertIn(CLAIMANT, one.message)
            for kept, nova in (
                (record, state.Nova()),
                (dataclasses.replace(record, here=False), gone),
                (dataclasses.replace(record, blank_of=None), gone),
            ):
                self.assertNotIn(
                    'blank-volume-without-server',
                    [
                        one.kind
                        for one in auditor.compare(
                            state.HostState((kept,), (), {}, nova=nova)
                        )
                    ],
                )

    def test_claim_of_a_server_elsewhere(self):
        disk = fake_disks.make_disk('d1')
        for elsewhere, kinds in (
            ({CLAIMANT: 'host2'}, [('claim-of-server-elsewhere', 'd1', '')]),
            ({}, []),
        ):
            found = self.assertFound(
                kinds,
                make_state(
                    [],
                    {'d1': disk},
                    {'d1': offer(disk, {CLAIMANT: 2})},
                    nova=state.Nova(elsewhere=elsewhere),
                ),
            )
            for one in found:
                self.assertEqual(CLAIMANT, one.owner)
                self.assertIn('2 GiB are claimed', one.message)
                self.assertIn('on host host2', one.message)

    def test_claim_of_a_migration_that_is_over(self):
        (found,) = self.assertFound(
            [('claim-of-migration', 'd1', findings.RELEASE)],
            self.migration(True, {OTHER: 2}),
        )
        self.assertEqual(OTHER, found.owner)
        self.assertIn(CLAIMANT, found.message)
        self.assertFound([], self.migration(False, {OTHER: 2}, status='new'))

    def test_claim_of_a_migration_that_is_forgotten(self):
        (found,) = self.assertFound(
            [('claim-of-migration', 'd1', '')],
            self.migration(
                False, {OTHER: 2}, status='running', is_forgotten=True
            ),
        )
        self.assertEqual(OTHER, found.owner)
        self.assertIn(f'{CLAIMANT} that Nova has forgotten', found.message)

    def test_a_migration_holds_the_space_of_its_servers_vdisks(self):
        # the vdisks are reserved too: that is no lack of space
        self.assertFound([], self.migration(False, {OTHER: 2}))
        self.assertFound([], self.migration(False, {OTHER: 2, CLAIMANT: 1}))
        self.assertFound(
            [('oversold', 'd1', '')],
            self.migration(False, {OTHER: 2, CLAIMANT: 2}),
        )

    def test_what_is_not_whole(self):
        half = dataclasses.replace(vdisk(), usable=False)
        self.assertFound(
            [('not-whole', 'd1', '')], make_state([volume()], {'d1': [half]})
        )
        # a clone that is half copied is not recorded, nor does it replace
        # the copy that is
        self.assertFound(
            [('not-recorded', 'd1', '')],
            make_state([volume(disk=None)], {'d1': [half]}),
        )
        self.assertFound(
            [('not-whole', 'd1', ''), ('second-copy', 'd2', '')],
            make_state([volume()], {'d1': [half], 'd2': [vdisk()]}),
        )
        small = dataclasses.replace(half, size_bytes=GIB)
        self.assertFound(
            [('not-whole', 'd1', ''), ('wrong-size', 'd1', '')],
            make_state([volume()], {'d1': [small]}),
        )

    def test_provider_below_another_compute_node(self):
        disk = fake_disks.make_disk('d1')
        for seen in (
            disk,
            dataclasses.replace(disk, health=discover.MISSING),
        ):
            (found,) = self.assertFound(
                [('provider-elsewhere', 'd1', '')],
                state.HostState((), (seen,), {}, foreign={'d1': 'host2'}),
            )
            self.assertIn('below compute node host2', found.message)
            self.assertIn('disk forget d1', found.advice)

    def test_provider_without_disk(self):
        self.assertFound(
            [('provider-without-disk', 'd9', '')],
            make_state(orphan_providers=('d9',)),
        )


REQUEST = flavor.VDiskRequest(vdisks=2, vdisk_gb=2, vdisk_mbps=50)


class ServersTestCase(AuditTestCase):
    """Servers whose flavor asks for two vdisks of 2 GiB, 50 MB/s each."""

    def server(self, held, providers=None, total_gb=100, mbps=100, **request):
        """Return a state with a server's vdisks on its disks."""
        request = dataclasses.replace(REQUEST, **request)
        disks = {
            name: dataclasses.replace(
                fake_disks.make_disk(
                    name,
                    total_gb,
                    held=[vdisk(id_, server=CLAIMANT) for id_ in ids],
                ),
                mbps=mbps,
            )
            for name, ids in held.items()
        }
        return make_state(
            [volume(id_, disk) for disk, ids in held.items() for id_ in ids],
            disks,
            {
                name: offer(disks[name], *claims)
                for name, claims in (providers or {}).items()
            },
            nova=state.Nova(((CLAIMANT, request),)),
        )

    def test_claimed(self):
        both = {CLAIMANT: 2}, {CLAIMANT: 50}
        for held in (
            {'d1': [ID], 'd2': [OTHER]},
            # not filled yet
            {'d1': [ID], 'd2': []},
            {'d1': [], 'd2': []},
        ):
            self.assertFound([], self.server(held, {'d1': both, 'd2': both}))

    def test_attached_while_it_ran(self):
        third = str(uuid.UUID(int=3))
        both = {CLAIMANT: 2}, {CLAIMANT: 50}
        self.assertFound(
            [],
            self.server(
                {'d0': [ID], 'd1': [OTHER], 'd2': [third]},
                {'d1': both, 'd2': both},
            ),
        )

    def test_extended(self):
        both = {CLAIMANT: 2}, {CLAIMANT: 50}
        found = self.server(
            {'d1': [ID], 'd2': [OTHER]}, {'d1': both, 'd2': both}
        )
        disk = found.disks[0]
        larger = dataclasses.replace(
            disk, vdisks=(vdisk(size_gb=7, server=CLAIMANT),)
        )
        records = (volume(size_gb=7), found.records[1])
        self.assertFound(
            [],
            dataclasses.replace(
                found,
                records=records,
                disks=(larger, found.disks[1]),
                providers=found.providers | {'d1': offer(larger, *both)},
            ),
        )

    def test_forced_or_healed(self):
        found = self.assertFound(
            [
                ('unclaimed', 'd1', findings.CLAIM),
                ('unclaimed', 'd2', findings.CLAIM),
            ],
            self.server({'d1': [ID], 'd2': [OTHER]}),
        )
        self.assertEqual({CLAIMANT}, {one.owner for one in found})
        self.assertIn('2 GiB and 50 MB/s', found[0].message)

    def test_only_what_lacks(self):
        for claims, lacking in (
            (({CLAIMANT: 2},), '0 GiB and 50 MB/s'),
            (({CLAIMANT: 1}, {CLAIMANT: 20}), '1 GiB and 30 MB/s'),
        ):
            (found,) = self.assertFound(
                [('unclaimed', 'd1', findings.CLAIM)],
                self.server(
                    {'d1': [ID], 'd2': [OTHER]},
                    {'d1': claims, 'd2': ({CLAIMANT: 2}, {CLAIMANT: 50})},
                ),
            )
            self.assertIn(lacking, found.message)

    def test_reserved_after_an_unshelve(self):
        # no room to count them twice: the GiB stay reserved
        for mbps, claims in ((50, ({}, {CLAIMANT: 50})), (0, ())):
            self.assertFound(
                [],
                self.server(
                    {'d1': [ID], 'd2': [OTHER]},
                    {'d1': claims, 'd2': claims},
                    vdisk_mbps=mbps,
                ),
            )

    def test_a_move_claims_the_gib_of_those_beyond_the_flavor(self):
        third = str(uuid.UUID(int=3))
        both = {CLAIMANT: 2}, {CLAIMANT: 50}
        held = {'d1': [ID], 'd2': [OTHER], 'd3': [third]}
        gb_only = ({CLAIMANT: 2},)
        for claims in (
            {'d1': both, 'd2': both, 'd3': gb_only},
            {'d1': gb_only, 'd2': both, 'd3': both},
        ):
            self.assertFound([], self.server(held, claims))
        self.assertFound(
            [('unclaimed', 'd2', findings.CLAIM)],
            self.server(held, {'d1': gb_only, 'd2': gb_only, 'd3': both}),
        )
        # one was deleted: its claim waits for another
        self.assertFound(
            [],
            self.server(
                {'d1': [ID], 'd2': [], 'd3': [third]},
                {'d1': both, 'd2': both, 'd3': gb_only},
            ),
        )

    def test_no_room(self):
        (found,) = self.assertFound(
            [('unclaimed', 'd1', '')],
            self.server(
                {'d1': [ID, OTHER]}, {'d1': ({}, {OTHER: 10})}, mbps=100
            ),
        )
        self.assertIn('110 of 100 MB/s', found.advice)
        found = self.assertFound(
            [('oversold', 'd1', ''), ('unclaimed', 'd1', '')],
            self.server(
                {'d1': [ID, OTHER]}, {'d1': ({OTHER: 3},)}, total_gb=5
            ),
        )
        self.assertIn('lacks 2 GiB', found[1].advice)

    def test_neither_claimed_nor_there(self):
        found = self.assertFound(
            [('without-vdisks', '', '')], self.server({'d1': []})
        )
        self.assertIn('2 of them neither exist', found[0].message)
        found = self.assertFound(
            [
                ('unclaimed', 'd1', findings.CLAIM),
                ('without-vdisks', '', ''),
            ][::1],
            self.server({'d1': [ID]}),
        )

    def test_a_disk_that_cannot_be_read_may_have_them(self):
        found = self.server({'d1': []})
        away = discover.missing('d2', '/disks/d2')
        self.assertFound(
            [], dataclasses.replace(found, disks=(*found.disks, away))
        )


DISKS = ('d1', 'd2', 'd3')
IDS = tuple(str(uuid.UUID(int=number)) for number in range(1, 5))

records = st.builds(
    Record,
    id=st.sampled_from(IDS),
    vdisk=st.tuples(
        st.sampled_from(('volume', 'snapshot')), st.sampled_from(IDS)
    ).map('-'.join),
    disk=st.sampled_from((*DISKS, 'gone', None)),
    size_gb=st.integers(1, 3),
    status=st.just('any'),
    here=st.booleans(),
    settled=st.booleans(),
    stuck=st.booleans(),
    deleted=st.booleans(),
)
held = st.lists(
    st.builds(
        VDisk,
        name=st.tuples(
            st.sampled_from(('volume', 'snapshot', 'unmanaged')),
            st.sampled_from(IDS),
        ).map('-'.join),
        volume_id=st.sampled_from(IDS),
        server_id=st.sampled_from((None, CLAIMANT)),
        size_bytes=st.integers(1, 6).map(lambda half: half * GIB // 2),
    ),
    unique_by=lambda vdisk: vdisk.name,
    max_size=5,
)


@st.composite
def states(draw):
    """Return anything that can be, whatever led there."""
    disks = tuple(
        fake_disks.make_disk(
            name,
            20,
            health=draw(st.sampled_from((discover.OK, discover.READ_ONLY))),
            held=draw(held),
        )
        if draw(st.integers(0, 4))
        else discover.missing(name, f'/disks/{name}')
        for name in DISKS
    )
    shown = draw(st.lists(records, max_size=6, unique_by=lambda one: one.id))
    offers = {
        disk.uuid: offer(draw(st.sampled_from(disks)), {CLAIMANT: 2})
        for disk in disks
        if draw(st.booleans())
    }
    return state.HostState(tuple(shown), disks, offers)


def repaired(state, finding):
    """Return the state after a repair, as the disks would be."""
    disks = {disk.uuid: disk for disk in state.disks}
    shown, offers = list(state.records), dict(state.providers)
    disk = disks[finding.disk]
    if finding.repair == findings.DELETE:
        left = [one for one in disk.vdisks if one.name != finding.vdisk]
        disks[disk.uuid] = dataclasses.replace(disk, vdisks=tuple(left))
    elif finding.repair == findings.RECORD:
        shown = [
            dataclasses.replace(one, disk=disk.uuid)
            if (one.id, one.vdisk) == (finding.owner, finding.vdisk)
            else one
            for one in shown
        ]
    elif finding.repair == findings.EXTEND:
        size = next(
            one.size_gb
            for one in shown
            if (one.id, one.vdisk) == (finding.owner, finding.vdisk)
        )
        larger = tuple(
            dataclasses.replace(one, size_bytes=size * GIB)
            if one.name == finding.vdisk
            else one
            for one in disk.vdisks
        )
        disks[disk.uuid] = dataclasses.replace(disk, vdisks=larger)
    disk = disks[finding.disk]
    if disk.uuid in offers:
        before = offers[disk.uuid]
        figures = (
            inventory.compute_figures(disk, before.claims)
            if disk.health == discover.OK
            else inventory.fully_reserved(before.inventories, before.claims)
        )
        offers[disk.uuid] = dataclasses.replace(
            before, inventories=inventories(figures)
        )
    return dataclasses.replace(
        state,
        records=tuple(shown),
        disks=tuple(disks[name] for name in DISKS),
        providers=offers,
    )


def copies(state):
    """Return the vdisks by (name, disk)."""
    return {
        (vdisk.name, disk.uuid): vdisk
        for disk in state.disks
        for vdisk in disk.vdisks
    }


class RepairTestCase(unittest.TestCase):
    @settings(max_examples=500)
    @given(states())
    def test_repairs_end_and_lose_nothing(self, before):
        after = before
        for _ in range(60):
            due = [one for one in auditor.compare(after) if one.repair]
            if not due:
                break
            after = repaired(after, due[0])
        else:
            self.fail(f'repairs do not end: {due}')
        had, has = copies(before), copies(after)
        for key, vdisk in had.items():
            if key in has:
                self.assertGreaterEqual(has[key].size_bytes, vdisk.size_bytes)
                continue
            # what went was nobody's, or there is another that is whole
            name, _ = key
            living = [
                one
                for one in before.records
                if not one.deleted and one.vdisk == name
            ]
            for one in living:
                left = has[name, one.disk]
                self.assertTrue(one.settled)
                self.assertEqual(had[name, one.disk], left)
                self.assertIn(left.volume_id, one.ids)
                self.assertGreaterEqual(left.size_bytes, one.size_gb * GIB)
            if not living:
                self.assertTrue(
                    any(
                        one.deleted and one.vdisk == name
                        for one in before.records
                    )
                )
            self.assertFalse(name.startswith('unmanaged'))
