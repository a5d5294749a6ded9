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


"""Each rule finds what it is for, and nothing in a cloud that is well."""

import dataclasses

import testtools

from tools.storm import facts
from tools.storm import invariants
from tools.storm.facts import GIB

HOST, OTHER = 'compute1', 'compute2'
DISKS = ('disk-a', 'disk-b')
SERVER, MIGRATION = 'server-id', 'migration-id'


def file(name, server=SERVER, gib=1, allocated=None):
    size = gib * GIB
    return facts.File(
        name, size, size if allocated is None else allocated, server
    )


def well():
    """Return a server with a vdisk on each disk, one more, a snapshot."""
    volumes = {
        f'v{n}': facts.Volume(
            f'v{n}',
            f'volume-v{n}',
            f'{SERVER}-blank-vol',
            'in-use',
            HOST,
            1,
            disk,
        )
        for n, disk in enumerate(DISKS)
    }
    volumes['free'] = facts.Volume(
        'free', 'volume-free', 'mine', 'available', HOST, 2, 'disk-b'
    )
    volumes['gone'] = facts.Volume(
        'gone', 'volume-gone', '', 'deleted', HOST, 1, 'disk-a', True
    )
    disks = {
        'disk-a': (file('volume-v0'),),
        'disk-b': (
            file('volume-v1'),
            file('volume-free', '', 2),
            file('snapshot-s', '', allocated=0),
        ),
    }
    return facts.Facts(
        volumes=volumes,
        snapshots={'s': facts.Snapshot('s', 'v1', 'available', 1, 'disk-b')},
        attached=frozenset([('v0', SERVER), ('v1', SERVER)]),
        servers={
            SERVER: facts.Server(
                SERVER, 'active', '', HOST, 2, 1, 'round_robin'
            )
        },
        migrations={MIGRATION: facts.Migration('confirmed', SERVER)},
        providers={
            'disk-a': facts.Provider('disk-a', 10, 0, {SERVER: 1}),
            'disk-b': facts.Provider('disk-b', 10, 3, {SERVER: 1}),
        },
        disks={
            name: facts.Disk(name, HOST, 11 * GIB, files)
            for name, files in disks.items()
        },
        links={HOST: {'volume-v0': 'disk-a', 'volume-v1': 'disk-b'}},
        guests={SERVER: {'volume-v0': 'disk-a', 'volume-v1': 'disk-b'}},
    )


class RulesTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.facts = well()

    def change(self, kind, key, **changes):
        found = getattr(self.facts, kind)
        found[key] = dataclasses.replace(found[key], **changes)

    def put(self, disk, *files):
        self.change('disks', disk, files=self.facts.disks[disk].files + files)

    def remove(self, disk, name):
        files = self.facts.disks[disk].files
        self.change(
            'disks', disk, files=tuple(f for f in files if f.name != name)
        )

    def assertFound(self, rule, subject, owner='project'):
        found = invariants.check(self.facts)
        self.assertIn(
            (rule, subject, owner),
            [(one.rule, one.subject, one.owner) for one in found],
            found,
        )

    def test_well(self):
        self.assertEqual([], invariants.check(self.facts))

    def test_lost(self):
        for disk, name in (
            ('disk-a', 'volume-v0'),
            ('disk-b', 'volume-free'),
            ('disk-b', 'snapshot-s'),
        ):
            self.facts = well()
            self.remove(disk, name)
            self.assertFound('vdisk', name)

    def test_two_copies(self):
        self.put('disk-b', file('volume-v0'))
        self.assertFound('vdisk', 'volume-v0')

    def test_other_disk_than_recorded(self):
        self.change('volumes', 'v0', location='disk-b')
        self.assertFound('vdisk', 'volume-v0')

    def test_other_host_than_recorded(self):
        self.change('volumes', 'free', host=OTHER)
        self.assertFound('vdisk', 'volume-free')

    def test_other_host_than_the_server(self):
        self.change('servers', SERVER, host=OTHER)
        self.assertFound('attachment', 'volume-v0')

    def test_wrong_size(self):
        self.change('volumes', 'free', size_gb=3)
        self.assertFound('vdisk', 'volume-free')

    def test_blocks_that_are_not_allocated(self):
        self.remove('disk-a', 'volume-v0')
        self.put('disk-a', file('volume-v0', allocated=GIB - 4096))
        self.assertFound('vdisk', 'volume-v0')

    def test_file_without_location(self):
        self.change('volumes', 'free', location='')
        self.assertFound('vdisk', 'volume-free')

    def test_link_to_another_disk(self):
        self.facts.links[HOST]['volume-v0'] = 'disk-b'
        self.assertFound('attachment', 'volume-v0')

    def test_no_link(self):
        del self.facts.links[HOST]['volume-v0']
        self.assertFound('attachment', 'volume-v0')

    def test_guest_that_uses_another_copy(self):
        for used in ('disk-b', 'disk-a(deleted)', 'disk-a and disk-b'):
            self.facts.guests[SERVER]['volume-v0'] = used
            self.assertFound('attachment', 'volume-v0')

    def test_guest_without_its_vdisk(self):
        del self.facts.guests[SERVER]['volume-v0']
        self.assertFound('attachment', 'volume-v0')
        # it has nothing open while it is stopped
        self.change('servers', SERVER, state='stopped')
        self.assertEqual([], invariants.check(self.facts))

    def test_guest_of_the_fake_driver(self):
        self.facts.guests.clear()
        self.assertEqual([], invariants.check(self.facts))

    def test_file_of_a_deleted_volume(self):
        self.put('disk-a', file('volume-gone'))
        self.assertFound('leftover', 'volume-gone')

    def test_file_that_is_not_finished(self):
        self.put('disk-a', file('.unfinished.volume-v0'))
        self.assertFound('leftover', '.unfinished.volume-v0')

    def test_link_of_a_deleted_volume(self):
        self.facts.links[OTHER] = {'volume-gone': 'disk-a'}
        self.assertFound('leftover', 'volume-gone')

    def test_vdisks_of_round_robin_on_one_disk(self):
        self.remove('disk-a', 'volume-v0')
        self.put('disk-b', file('volume-v0'))
        self.change('volumes', 'v0', location='disk-b')
        self.assertFound('mapping', SERVER)

    def test_disk_without_provider(self):
        del self.facts.providers['disk-a']
        self.assertFound('ledger', 'disk-a')

    def test_reserved_is_not_the_content(self):
        for reserved in (2, 4):
            self.change('providers', 'disk-b', reserved=reserved)
            self.assertFound('ledger', 'disk-b')

    def test_all_of_a_drained_disk_is_reserved(self):
        self.change('disks', 'disk-b', draining=True)
        self.assertFound('ledger', 'disk-b')
        self.change('providers', 'disk-b', reserved=10)
        self.assertEqual([], invariants.check(self.facts))

    def test_more_is_offered_than_there_is(self):
        self.change('providers', 'disk-a', total=12)
        self.assertFound('ledger', 'disk-a')

    def test_oversold(self):
        self.change('providers', 'disk-b', claims={SERVER: 1, 'other': 7})
        self.facts.servers['other'] = facts.Server(
            'other', 'building', 'spawning', HOST
        )
        self.assertFound('oversold', 'disk-b')

    def test_oversold_by_what_nova_has_leaked(self):
        self.change('providers', 'disk-b', claims={SERVER: 1, MIGRATION: 7})
        self.assertFound('oversold', 'disk-b', 'nova')
        self.assertFound('leaked-claim', MIGRATION, 'nova')

    def test_claims_of_what_is_gone(self):
        for consumer in ('unknown', MIGRATION, 'deleted'):
            self.facts = well()
            self.facts.servers['deleted'] = facts.Server(
                'deleted', 'deleted', '', HOST, deleted=True
            )
            self.facts.providers['disk-a'].claims[consumer] = 1
            self.assertFound('leaked-claim', consumer, 'nova')

    def test_claim_of_a_migration_that_goes_on(self):
        self.facts.migrations[MIGRATION] = facts.Migration('migrating', SERVER)
        self.facts.providers['disk-a'].claims[MIGRATION] = 1
        self.assertEqual([], invariants.check(self.facts))

    def test_claim_of_a_migration_whose_server_is_deleted(self):
        self.facts.servers['deleted'] = facts.Server(
            'deleted', 'deleted', '', HOST, deleted=True
        )
        self.facts.migrations[MIGRATION] = facts.Migration(
            'migrating', 'deleted'
        )
        self.facts.providers['disk-a'].claims[MIGRATION] = 1
        self.assertFound('leaked-claim', MIGRATION, 'nova')
        text = f'claim-without-server: {MIGRATION}'
        (told,) = invariants.told(self.facts, 'audit', 'host', [text])
        self.assertEqual('nova', told.owner)

    def test_vdisks_that_are_neither_there_nor_claimed(self):
        self.change('servers', SERVER, vdisks=3)
        self.assertFound('promise', SERVER)
        self.facts.providers['disk-a'].claims[SERVER] = 2
        self.assertEqual([], invariants.check(self.facts))

    def test_vdisks_that_a_user_has_deleted(self):
        self.change('servers', SERVER, vdisks=3)
        self.facts.volumes['deleted'] = dataclasses.replace(
            self.facts.volumes['v0'],
            uuid='deleted',
            name='x',
            deleted=True,
            ended='2026-11-25T21:00:01',
        )
        self.change('servers', SERVER, begun='2026-11-25T21:00:02')
        self.assertFound('promise', SERVER)
        self.change('servers', SERVER, begun='2026-11-25T21:00:00')
        self.assertEqual([], invariants.check(self.facts))
        text = f'without-vdisks: {SERVER}'
        (told,) = invariants.told(self.facts, 'audit', 'host', [text])
        self.assertEqual('user', told.owner)
        # an unshelve has claimed their space again
        self.change('servers', SERVER, begun='2026-11-25T21:00:02')
        pending = f'"pending" {SERVER}'
        (told,) = invariants.told(self.facts, 'check', 'check', [pending])
        self.assertEqual('user', told.owner)
        del self.facts.volumes['deleted']
        for finding in (text, pending):
            (told,) = invariants.told(self.facts, 'audit', 'host', [finding])
            self.assertEqual('project', told.owner)

    def test_server_whose_vdisks_are_reserved(self):
        """A resize has them reserved, which is as safe as a claim."""
        for name, reserved in (('disk-a', 1), ('disk-b', 4)):
            self.change('providers', name, claims={}, reserved=reserved)
        self.assertEqual([], invariants.check(self.facts))

    def test_what_cinder_works_on_is_left_alone(self):
        self.remove('disk-b', 'volume-free')
        self.change('volumes', 'free', status='deleting')
        self.change('providers', 'disk-b', reserved=1)
        self.assertEqual([], invariants.check(self.facts))


class ToldTest(testtools.TestCase):
    def test_findings_about_what_cinder_left(self):
        found = well()
        found.volumes['free'] = dataclasses.replace(
            found.volumes['free'], status='error'
        )
        ours, theirs = invariants.told(
            found, 'audit', 'host', ['volume v0 is lost', 'free is lost']
        )
        self.assertEqual(('project', ''), (ours.owner, ours.reason))
        self.assertEqual('nova', theirs.owner)
        self.assertIn('error in Cinder', theirs.reason)

    def test_blank_volume_that_an_audit_names(self):
        text = '{"kind": "blank-volume-without-server", "owner": "v0"}'
        (told,) = invariants.told(well(), 'audit', 'host', [text])
        self.assertEqual('nova', told.owner)

    def test_busy(self):
        found = well()
        self.assertEqual([], invariants.busy(found))
        found.servers[SERVER] = dataclasses.replace(
            found.servers[SERVER], task='rebooting'
        )
        found.volumes['free'] = dataclasses.replace(
            found.volumes['free'], status='extending'
        )
        self.assertEqual([SERVER, 'free'], invariants.busy(found))

    def test_blank_volume_of_a_boot_that_was_cut_short(self):
        found = well()
        self.assertEqual([], invariants.unused(found, (), ''))
        del found.servers[SERVER]
        self.assertEqual(
            ['v0', 'v1'],
            [one.subject for one in invariants.unused(found, (), '')],
        )
        self.assertEqual(
            ['project', 'cinder'],
            [one.owner for one in invariants.unused(found, (), '')],
            'a snapshot keeps the second one',
        )
        found.snapshots.clear()
        self.assertEqual(
            ['cinder', 'project'],
            [one.owner for one in invariants.unused(found, (), 'finding: v0')],
        )
        # its user has detached it, and goes on with it
        (left,) = invariants.unused(found, {'v0'}, '')
        self.assertEqual('v1', left.subject)


class EmptyTest(testtools.TestCase):
    def test_what_is_left(self):
        found = invariants.empty(well())
        self.assertEqual(
            {SERVER, 'v0', 'v1', 'free', 's'},
            {one.subject for one in found if one.rule == 'not-deleted'},
        )
        self.assertEqual(
            {'volume-v0', 'volume-v1', 'volume-free', 'snapshot-s'},
            {one.subject for one in found if one.rule == 'leftover'},
        )
        self.assertIn('disk-b', {one.subject for one in found})

    def test_nothing_is_left(self):
        providers = {'disk-a': facts.Provider('disk-a', 10, 0, {})}
        disks = {'disk-a': facts.Disk('disk-a', HOST, 11 * GIB)}
        self.assertEqual(
            [],
            invariants.empty(facts.Facts(providers=providers, disks=disks)),
        )
