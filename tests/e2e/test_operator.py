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

"""What an administrator runs with nothing but an openrc file."""

import json

from nova_diskplacer import exit_status
from nova_diskplacer.cmd import status
from tests.e2e import base
from tools.minicloud import checks

FLAVOR = f'round-robin-{base.VDISKS}'


class OperatorTest(base.TestCase):
    def vdisk(self, *arguments):
        """Return what ``openstack vdisk`` says, decoded."""
        text = self.cloud.run(
            'openstack', 'vdisk', *arguments, '--format=json'
        )
        return json.loads(text)

    def test_map_disks_capacity_and_check(self):
        before = self.capacity('compute2')
        server = self.boot('round-robin', 'compute2')
        self.boot('plain', 'compute2')
        self.assertEqual(before - 1, self.capacity('compute2'))
        self.check_map(server)
        self.check_disks(server)
        self.check_findings()

    def capacity(self, host):
        (row,) = self.vdisk('capacity', f'--flavor={FLAVOR}', f'--host={host}')
        return row['Servers']

    def check_map(self, server):
        rows = self.vdisk('list', '--long')
        self.assertEqual(
            self.disks_of(server),
            {row['Volume']: row['Actual disk'] for row in rows},
        )
        for row in rows:
            self.assertEqual(
                ('compute2', server, 1, 'ok'),
                tuple(
                    row[key] for key in ('Host', 'Server ID', 'GiB', 'Status')
                ),
            )
            self.assertEqual(row['Claimed disk'], row['Actual disk'])
        attached = self.api.get(
            'compute', f'/servers/{server}/os-volume_attachments'
        )['volumeAttachments']
        self.assertEqual(
            {one['volumeId']: one['device'] for one in attached},
            {row['Volume']: f'/dev/{row["Device"]}' for row in rows},
        )
        self.assertEqual([], self.vdisk('list', '--host', 'compute3'))

    def check_disks(self, server):
        disks = self.vdisk('disk', 'list', '--long')
        self.assertEqual(
            {*self.cloud.disk_providers()}, {one['Disk'] for one in disks}
        )
        disk = next(iter(checks.claims(self.cloud, server)))
        shown = self.vdisk('disk', 'show', disk)
        self.assertIn(disk, shown.values())

    def check_findings(self):
        self.assertEqual([], self.vdisk('check'))
        flavor = self.api.create_flavor('unknown-profile', profile='hadop')
        self.addCleanup(self.api.delete, 'compute', f'/flavors/{flavor}')
        done = self.cloud.attempt(
            'openstack', 'vdisk', 'check', '--format=json'
        )
        self.assertEqual(exit_status.FINDINGS, done.returncode, done.stderr)
        (row,) = json.loads(done.stdout)
        self.assertEqual('unknown-profile', row['Subject'])
        self.assertIn('hadop', row['Finding'])

    def test_upgrade_check(self):
        found = self.cloud.upgrade_check()
        self.assertEqual(
            [name for name, _ in status.Checks._upgrade_checks],
            [one['check'] for one in found],
        )
        self.assertEqual([], [one for one in found if one['result']])
