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
import uuid
from unittest import mock

import fixtures
import testtools
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper.audit import auditor
from cinder_vdisk_mapper.audit import state
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
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
        conf.config(
            lock_path=self.useFixture(fixtures.TempDir()).path,
            group='oslo_concurrency',
        )
        self.held = []
        lock = locks.hold

        @contextlib.contextmanager
        def noted(name):
            with lock(name):
                self.held.append(name)
                yield
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

        def disks_():
            backend.looks += 1
            return see()

        backend.disks = disks_
        found = Placement(*disks)
        for disk in disks:
            inventory.sync_disk(
                found, disk.uuid, functools.partial(backend.disk, disk.uuid)
            )
        found.asked = 0
        return auditor.Auditor((backend,), found, Records(records), self.ask)

    def ask(self, consumers):
        self.assertEqual([], self.held)
        self.asked_nova += 1
        return self.nova

    def orphans(self, number):
        """Return a host with so many orphans on each disk."""
        records = [
            state.Record(
                id_of(n), f'volume-{id_of(n)}', 'd1', 1, '', deleted=True
            )
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
            host.backends[0].looks,
            host.records.asked,
            host.placement.asked,
            self.asked_nova,
        )
        self.assertEqual([], host.audit())
        return effort


class EffortTestCase(AuditorTestCase):
    def test_it_does_not_grow_with_what_is_found(self):
        self.assertEqual(self.effort(10), self.effort(100))


class LockTestCase(AuditorTestCase):
    def volume(self, number=1, disk='d1', **fields):
        """Return a volume's record and its vdisk."""
        id_ = id_of(number)
        record = state.Record(
            id_, f'volume-{id_}', disk, 2, 'available', **fields
        )
        return record, VDisk(record.vdisk, id_, None, 2 * GIB)

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
        (backend,) = host.backends
        done = []

        def noted(what, function):
            def call(*args, **kwargs):
                done.append((what, *self.held))
                return function(*args, **kwargs)

            return call

        found = host.audit()
        backend.delete = noted('delete', backend.delete)
        backend.extend = noted('extend', backend.extend)
        host.records.record = noted('record', host.records.record)
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
            host.records.all = [
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
            {there, orphan}, {*host.backends[0].known['d1'].vdisks}
        )

    def test_one_that_cannot_be_repaired_keeps_no_other(self):
        _, first = self.volume(1)
        host = self.orphans(2)
        (backend,) = host.backends
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
        request = flavor.VDiskRequest(vdisks=1, vdisk_gb=2)
        self.nova = state.Nova(((SERVER, request),))
        found = host.audit()
        self.assertEqual(['unclaimed'], [one.kind for one in found])
        with mock.patch.object(inventory, 'ensure_claim') as claim:
            self.assertEqual(found, host.repair(found))
        self.assertEqual(
            ('d1', SERVER, {placement_client.GB: 2}), claim.call_args.args[1:4]
        )


class NovaTestCase(testtools.TestCase):
    def ask(self, of_hosts, living=None):
        with (
            mock.patch.object(auditor.nova_api, 'of_hosts', of_hosts),
            mock.patch.object(auditor.nova_api, 'existing_consumers', living),
        ):
            return auditor._ask_nova(
                None, ['host'], ['s1', 's2', 's3', 'gone']
            )

    def test_servers_and_gone(self):
        request = flavor.VDiskRequest(vdisks=1, vdisk_gb=2)
        server = auditor.nova_api.Server('s1', 'p', 'host', request)
        plain = auditor.nova_api.Server('s2', 'p', 'host', None)
        said = self.ask(
            mock.Mock(return_value={'s1': server, 's2': plain, 's4': None}),
            mock.Mock(return_value=frozenset(['s3', 'else'])),
        )
        self.assertEqual(
            state.Nova((('s1', request),), frozenset(['gone'])), said
        )

    def test_all_are_here(self):
        known = dict.fromkeys(['s1', 's2', 's3', 'gone'])
        self.assertEqual(state.Nova(), self.ask(mock.Mock(return_value=known)))

    def test_nova_is_away(self):
        away = mock.Mock(side_effect=auditor.nova_api.NovaError('away'))
        self.assertEqual(state.Nova(), self.ask(away))
