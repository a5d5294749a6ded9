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

"""Group snapshots of the volumes of a guest that never stops writing.

It writes 1, 2, ... to its vdisks, each number to one after the other: at any
moment they hold the same number, or the first one the next.
"""

import functools
import os
import subprocess
import sys
from uuid import uuid4

from tests.e2e import base
from tools.minicloud import guest
from tools.minicloud import hypervisor

ROUNDS = 4
MOST_ROUNDS = 30

# suspends a server as the driver does, says so, and waits to be killed
KILLED = """
import sys, time
from oslo_concurrency import lockutils
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import quiesce
privsep.setup()
uri, marks, locks, server = sys.argv[1:]
lockutils.set_defaults(locks)
with quiesce.Quiescer(uri, marks).quiet([server]):
    print('quiet', flush=True)
    time.sleep(600)
"""

# starts the helper process, gives up root, and asks of a server
HELPED = """
import os, sys
from oslo_config import cfg
from oslo_privsep import priv_context
from cinder_vdisk_mapper import hypervisor
from cinder_vdisk_mapper import privsep
cfg.CONF([], project='test', default_config_files=[])
privsep.context.start(priv_context.Method.FORK)
os.setresuid(65534, 65534, 65534)
for function in sys.argv[3:]:
    print(int(getattr(hypervisor, function)(*sys.argv[1:3])), end='')
privsep.context.stop()
"""


class GroupSnapshotsTest(base.TestCase):
    def setUp(self):
        # last, when no volume has them
        self.made = []
        self.addCleanup(self._delete)
        super().setUp()
        self.host = self.cloud.libvirt_host
        # volumes go where the group is, which is where there is this backend
        (self.backend,) = [
            name
            for host in self.cloud.hosts
            if host.name == self.host
            for name in host.backends
            if name != 'vdisk'
        ]
        self.addCleanup(self._delete_groups)
        self.type = self.make(
            '/types',
            'volume_type',
            name='counters',
            extra_specs={'volume_backend_name': self.backend},
        )
        kernel, initramfs = guest.build()
        self.image = self.cloud.create_guest_image(
            'counter',
            kernel,
            initramfs,
            os_command_line='console=ttyS0 vdisk.count',
        )

    def make(self, path, kind, **fields):
        """Make something that goes with the test; returns its id."""
        answer = self.api.post('volumev3', path, {kind: fields})
        found = answer[kind]['id']
        self.made.append(f'{path}/{found}')
        return found

    def _delete(self):
        for path in reversed(self.made):
            self.api.delete('volumev3', path)

    def _delete_groups(self):
        for server in self.api.get('compute', '/servers')['servers']:
            self.api.delete_server(server['id'])
        for kind, suffix, body in (
            ('group_snapshots', '', None),
            ('groups', '/action', {'delete': {'delete-volumes': True}}),
        ):
            self.eventually(
                f'{kind} gone',
                functools.partial(self._gone, kind, suffix, body),
            )

    def _gone(self, kind, suffix, body):
        found = self.api.get('volumev3', f'/{kind}')[kind]
        for one in found:
            path = f'/{kind}/{one["id"]}{suffix}'
            self.discard('volumev3', path, body)
        return not found

    def wait(self, path, kind, status='available'):
        """Wait until something has a status, and return it."""

        def ready():
            found = self.api.get('volumev3', path)[kind]
            self.assertNotIn('error', found['status'])
            return found if found['status'] == status else None

        found = {}
        self.eventually(path, lambda: found.update(ready() or {}) or found)
        return found

    def make_group(self, **specs):
        """Return the id of a new group of a type with these specs."""
        type_ = self.make(
            '/group_types', 'group_type', name=f'type{len(self.made)}'
        )
        if specs:
            self.api.post(
                'volumev3',
                f'/group_types/{type_}/group_specs',
                {'group_specs': specs},
            )
        body = {'group_type': type_, 'volume_types': [self.type]}
        answer = self.api.post('volumev3', '/groups', {'group': body})
        group = answer['group']['id']
        self.wait(f'/groups/{group}', 'group')
        return group

    def make_volume(self, group):
        answer = self.api.post(
            'volumev3',
            '/volumes',
            {
                'volume': {
                    'size': 1,
                    'volume_type': self.type,
                    'group_id': group,
                }
            },
        )
        volume = answer['volume']['id']
        self.api.wait_volume(volume, 'available')
        return volume

    def boot_with(self, volumes):
        """Boot a server with volumes and return it once it counts."""
        disks = [
            {
                'source_type': 'image',
                'destination_type': 'local',
                'uuid': self.image,
                'boot_index': 0,
                'delete_on_termination': True,
            },
            *(
                {
                    'source_type': 'volume',
                    'destination_type': 'volume',
                    'uuid': volume,
                    'boot_index': -1,
                }
                for volume in volumes
            ),
        ]
        server = self.api.create_server(
            'counter',
            self.cloud.flavors['plain'],
            self.image,
            0,
            1,
            host=self.host,
            block_device_mapping_v2=disks,
        )
        self.api.wait_server(server)
        names = [f'volume-{volume}' for volume in volumes]
        self.eventually(
            'counting',
            lambda: self.counts(names)[-1] > 3,
            base.GUEST_TIMEOUT,
        )
        return server

    def counts(self, names):
        """Return the numbers that vdisks hold."""
        root = self.cloud.state.disk_root(self.host)
        found = []
        for name in names:
            (path,) = root.glob(f'*/vdisks/{name}')
            with path.open('rb') as stream:
                found.append(int(stream.read(512).strip(b'\0 \n') or b'0'))
        return found

    def snapshot(self, group, volumes):
        """Take a group snapshot; returns its id and the numbers in it."""
        answer = self.api.post(
            'volumev3',
            '/group_snapshots',
            {'group_snapshot': {'group_id': group}},
        )
        made = answer['group_snapshot']['id']
        self.wait(f'/group_snapshots/{made}', 'group_snapshot')
        path = '/snapshots/detail?sort=created_at:desc'
        snapshots = {
            one['volume_id']: one['id']
            for one in self.api.get('volumev3', path)['snapshots']
            if one['group_snapshot_id'] == made
        }
        names = [f'snapshot-{snapshots[volume]}' for volume in volumes]
        return made, self.counts(names)

    def advances(self, volumes):
        """Return whether the guest writes."""
        names = [f'volume-{volume}' for volume in volumes]
        before = self.counts(names)
        self.eventually(
            'writing', lambda: self.counts(names)[-1] > before[-1] + 1
        )
        return True

    def test_of_one_moment(self):
        group = self.make_group(consistent_group_snapshot_enabled='<is> True')
        volumes = [self.make_volume(group) for _ in range(2)]
        server = self.boot_with(volumes)
        self.assertEqual(
            2, len(set(self.disks_of(server).values())), 'two disks'
        )
        rounds = []
        for _ in range(ROUNDS):
            made, (first, second) = self.snapshot(group, volumes)
            rounds.append((first, second))
            self.assertTrue(self.advances(volumes))
        for first, second in rounds:
            self.assertIn(first - second, (0, 1), rounds)
        self.assertEqual(sorted(set(rounds)), rounds)
        self.assertEqual('ACTIVE', self.api.server(server)['status'])
        self._check_copy(made, rounds[-1])
        self._check_that_it_can_fail(group, volumes)

    def _check_copy(self, made, counts):
        """A group made from the last snapshot holds the same numbers."""
        answer = self.api.post(
            'volumev3',
            '/groups/action',
            {'create-from-src': {'group_snapshot_id': made}},
        )
        copy = answer['group']['id']
        self.wait(f'/groups/{copy}', 'group')
        names = [
            f'volume-{one["id"]}'
            for one in self.api.volumes()
            if one.get('group_id') == copy
        ]
        self.assertEqual(sorted(counts), sorted(self.counts(names)))

    def _check_that_it_can_fail(self, group, volumes):
        """In a group that need not be consistent the numbers differ."""
        other = self.make_group()
        for path, change in (
            (group, {'remove_volumes': ','.join(volumes)}),
            (other, {'add_volumes': ','.join(volumes)}),
        ):
            self.api.call(
                'volumev3', 'PUT', f'/groups/{path}', json={'group': change}
            )
            self.wait(f'/groups/{path}', 'group')
        rounds = []
        # a slow guest may write nothing between two snapshots
        for _ in range(MOST_ROUNDS):
            made, (first, second) = self.snapshot(other, volumes)
            rounds.append((first, second))
            if first - second not in (0, 1):
                return
            self._delete_snapshot(made)
        self.fail(rounds)

    def _delete_snapshot(self, made):
        """Have room for the next one."""
        path = '/group_snapshots'
        self.api.delete('volumev3', f'{path}/{made}')

        def gone():
            found = self.api.get('volumev3', path)['group_snapshots']
            return made not in [one['id'] for one in found]

        self.eventually('group snapshot gone', gone)

    def test_killed_meanwhile(self):
        """What a process suspended that was killed is resumed by the next."""
        group = self.make_group()
        volumes = [self.make_volume(group)]
        server = self.boot_with(volumes)
        self._check_helper(server)
        state = self.cloud.state
        directory = state.host_dir(self.host)
        with subprocess.Popen(
            [
                sys.executable,
                '-c',
                KILLED,
                hypervisor.uri(state),
                f'{directory}/cinder/vdisk-suspended',
                f'{directory}/locks',
                server,
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
            text=True,
        ) as process:
            self.addCleanup(process.kill)
            self.assertEqual('quiet\n', process.stdout.readline())
            self.assertIn('paused', self.domain_state(server))
            names = [f'volume-{volume}' for volume in volumes]
            self.assertEqual(self.counts(names), self.counts(names))
            process.kill()
        self.eventually(
            'resumed', lambda: 'running' in self.domain_state(server)
        )
        self.assertTrue(self.advances(volumes))
        self.assertEqual('ACTIVE', self.api.server(server)['status'])

    def _check_helper(self, server):
        """Who may not talk to libvirt does by the helper process."""
        steps = ('running', 'resume', 'suspend', 'suspend', 'resume')
        for uuid, answers in ((server, '10101'), (str(uuid4()), '00000')):
            done = subprocess.run(
                [
                    sys.executable,
                    '-c',
                    HELPED,
                    hypervisor.uri(self.cloud.state),
                    uuid,
                    *steps,
                ],
                env={**os.environ, 'PYTHONWARNINGS': 'ignore'},
                capture_output=True,
                text=True,
            )
            self.assertEqual((answers, ''), (done.stdout, done.stderr))

    def domain_state(self, server):
        return hypervisor.virsh(self.cloud.state, 'domstate', server)
