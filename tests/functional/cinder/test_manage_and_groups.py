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

"""Vdisks that Cinder takes over and lets go of, and groups of volumes."""

import os

import cinder.privsep

from nova_diskplacer.disks.filesystem import vdisks
from tests import shell
from tests.functional.cinder import test_driver

GIB = 1 << 30
POOL = 'host1@vdisk#vdisk'


class ManageTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        # Cinder looks at images as root, which this is
        context = cinder.privsep.sys_admin_pctxt
        context.set_client_mode(False)
        self.addCleanup(context.set_client_mode, True)
        self.disk = self.disks[0]

    def path(self, name):
        return vdisks.path(self.host.disks()[self.disk].path, name)

    def put(self, name, content, size):
        """Put a sparse file of somebody else's on a disk."""
        with open(self.path(name), 'wb') as stream:
            stream.write(content)
            stream.truncate(size)
        self.host.publish()

    def names(self):
        return [vdisk.name for vdisk in self.host.disks()[self.disk].vdisks]

    def manage(self, name, status='available'):
        body = {
            'volume': {
                'host': POOL,
                'ref': {'source-name': f'{self.disk}/{name}'},
                'volume_type': 'vdisk',
            }
        }
        answer = self.api.api_post('/manageable_volumes', body)
        return self.wait(answer['volume']['id'], status)

    def unmanage(self, volume):
        self.api.api_post(
            f'/volumes/{volume["id"]}/action', {'os-unmanage': {}}
        )
        self.wait(volume['id'], None)

    def listed(self):
        found = self.api.api_get(f'/manageable_volumes/detail?host={POOL}')
        return {
            one['reference']['source-name']: (
                one['size'],
                one['safe_to_manage'],
                one['cinder_id'],
            )
            for one in found['manageable-volumes']
        }

    def test_there_and_back(self):
        self.put('found', b'content', GIB + 512)
        self.assertEqual(
            {f'{self.disk}/found': (2, True, None)}, self.listed()
        )
        volume = self.manage('found')
        name = f'volume-{volume["id"]}'
        self.assertEqual(2, volume['size'])
        self.assertIs(False, volume['shared_targets'])
        self.assertEqual(
            {f'{self.disk}/{name}': (2, False, volume['id'])}, self.listed()
        )
        status = os.stat(self.path(name))
        self.assertEqual(2 * GIB, status.st_size)
        self.assertGreaterEqual(status.st_blocks * 512, 2 * GIB)
        self.assertEqual((0o600, 0), (status.st_mode & 0o777, status.st_uid))
        self.assertEqual(2, self.host.reserved()[self.disk])
        attachment, path = self.attach(volume, self.server())
        with open(path, 'rb') as stream:
            self.assertEqual(b'content\0', stream.read(8))
        self.detach(volume, attachment)
        self.unmanage(volume)
        self.assertEqual([f'unmanaged-{volume["id"]}'], self.names())
        self.assertEqual(2, self.host.reserved()[self.disk])
        again = self.manage(f'unmanaged-{volume["id"]}')
        self.delete(again)
        self.assertEqual([], self.names())
        self.assertEqual(0, self.host.reserved()[self.disk])

    def test_other_formats(self):
        shell.run('qemu-img', 'create', '-qf', 'qcow2', self.path('q'), '1G')
        volume = self.manage('q', 'error')
        self.assertIn('its content is qcow2', self.log.output)
        # deleting what could not be taken over leaves it where it is
        self.delete(volume)
        self.assertEqual(['q'], self.names())

    def test_what_a_volume_is(self):
        volume = self.create(1)
        attachment, path = self.attach(volume, self.server())
        self.disk = self.where(volume)
        other = self.manage(os.path.basename(path), 'error')
        self.assertIn('already managed', self.log.output)
        self.delete(other)
        self.assertTrue(os.path.exists(path))
        self.detach(volume, attachment)

    def test_snapshot(self):
        volume = self.create(1)
        attachment, path = self.attach(volume, self.server())
        self.detach(volume, attachment)
        self.disk = self.where(volume)
        with open(path, 'r+b') as stream:
            stream.write(b'first')
        snapshot = self.api.api_post(
            '/snapshots', {'snapshot': {'volume_id': volume['id']}}
        )['snapshot']
        self.wait(snapshot['id'], 'available', 'snapshot')
        self.api.api_post(
            f'/snapshots/{snapshot["id"]}/action', {'os-unmanage': {}}
        )
        self.wait(snapshot['id'], None, 'snapshot')
        name = f'unmanaged-{snapshot["id"]}'
        self.assertIn(name, self.names())
        again = self.api.api_post(
            '/manageable_snapshots',
            {
                'snapshot': {
                    'volume_id': volume['id'],
                    'ref': {'source-name': f'{self.disk}/{name}'},
                }
            },
        )['snapshot']
        self.wait(again['id'], 'available', 'snapshot')
        self.assertNotIn(name, self.names())
        with open(path, 'r+b') as stream:
            stream.write(b'other')
        self.api.api_post(
            f'/volumes/{volume["id"]}/action',
            {'revert': {'snapshot_id': again['id']}},
        )
        self.wait(volume['id'], 'available')
        self.wait(again['id'], 'available', 'snapshot')
        with open(path, 'rb') as stream:
            self.assertEqual(b'first', stream.read(5))
        self.api.api_delete(f'/snapshots/{again["id"]}')
        self.wait(again['id'], None, 'snapshot')
        self.delete(volume)
        self.assertEqual([], self.names())


class GroupTestCase(test_driver.DriverTestCase):
    def setUp(self):
        super().setUp()
        self.type = self.api.api_post(
            '/group_types', {'group_type': {'name': 'consistent'}}
        )['group_type']['id']
        self.api.api_post(
            f'/group_types/{self.type}/group_specs',
            {
                'group_specs': {
                    'consistent_group_snapshot_enabled': '<is> True'
                }
            },
        )
        self.group = self.api.api_post(
            '/groups',
            {
                'group': {
                    'group_type': self.type,
                    'volume_types': [self.type_id],
                    'availability_zone': 'nova',
                }
            },
        )['group']['id']
        self.wait(self.group, 'available', 'group')

    def make_volume(self, group='group_id'):
        body = {
            'volume': {
                'size': 1,
                'volume_type': self.type_id,
                group: self.group,
            }
        }
        volume = self.api.post_volume(body)
        return self.wait(volume['id'], 'available')

    def all_vdisks(self):
        return sorted(
            vdisk.name
            for host in self.hosts.values()
            for disk in host.disks().values()
            for vdisk in disk.vdisks
        )

    def snapshot(self, status):
        made = self.api.api_post(
            '/group_snapshots', {'group_snapshot': {'group_id': self.group}}
        )['group_snapshot']['id']
        self.wait(made, status, 'group_snapshot')
        return made

    def delete_snapshot(self, made):
        self.api.api_delete(f'/group_snapshots/{made}')
        self.wait(made, None, 'group_snapshot')

    def refuse_while_attached(self, volume, host):
        before = self.all_vdisks()
        attachment, _ = self.attach(volume, self.server(host), host)
        made = self.snapshot('error')
        self.assertIn('are attached', self.log.output)
        self.detach(volume, attachment)
        self.delete_snapshot(made)
        bound = f'volume-{volume["id"]}'
        self.assertEqual(sorted([*before, bound]), self.all_vdisks())

    def test_life(self):
        volumes = [self.make_volume() for _ in range(4)]
        (host,) = {
            self.api.get_volume(one['id'])['os-vol-host-attr:host']
            for one in volumes
        }
        name = host.partition('@')[0]
        for volume in volumes[:2]:
            attachment, _ = self.attach(volume, self.server(name), name)
            self.detach(volume, attachment)
        bound = [f'volume-{one["id"]}' for one in volumes[:2]]
        self.assertEqual(sorted(bound), self.all_vdisks())
        self.refuse_while_attached(volumes[2], name)
        bound.append(f'volume-{volumes[2]["id"]}')
        made = self.snapshot('available')
        snapshots = self.api.api_get('/snapshots/detail')['snapshots']
        self.assertEqual({'available'}, {one['status'] for one in snapshots})
        self.assertEqual(4, len(snapshots))
        held = [one for one in self.all_vdisks() if 'snapshot' in one]
        # one volume has no bytes
        self.assertEqual(3, len(held))
        self.assertEqual(6, sum(self.hosts[name].reserved().values()))
        self.delete_snapshot(made)
        self.assertEqual(sorted(bound), self.all_vdisks())
        self.api.api_post(
            f'/groups/{self.group}/action',
            {'delete': {'delete-volumes': True}},
        )
        self.wait(self.group, None, 'group')
        self.assertEqual([], self.all_vdisks())
        self.assertEqual(0, sum(self.hosts[name].reserved().values()))

    def make(self, kind, **fields):
        made = self.api.api_post(
            f'/{kind}s', {kind: fields}, check_response_status=[202]
        )[kind]['id']
        self.wait(made, 'available', kind)
        return made

    def test_api_of_consistency_groups(self):
        self.group = self.make('consistencygroup', volume_types=self.type_id)
        self.make_volume('consistencygroup_id')
        made = self.make('cgsnapshot', consistencygroup_id=self.group)
        self.api.api_delete(f'/cgsnapshots/{made}')
        self.wait(made, None, 'cgsnapshot')
        self.api.api_post(
            f'/consistencygroups/{self.group}/delete',
            {'consistencygroup': {'force': True}},
            check_response_status=[202],
        )
        self.wait(self.group, None, 'consistencygroup')
