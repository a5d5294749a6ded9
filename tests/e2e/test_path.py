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


"""From the flavor's extra specs to the guest's disks, and what it is told."""

from tests.e2e import base
from tests.e2e import guest_settings
from tools.minicloud import checks
from tools.minicloud import process


class PathTest(base.TestCase):
    def test_round_robin_and_consolidated(self):
        host = self.cloud.libvirt_host
        servers = {
            mapping: self.request(mapping, host, config_drive=True)
            for mapping in ('round-robin', 'consolidated')
        }
        for mapping, server in servers.items():
            self.api.wait_server(server)
            self.assert_mapped(server, mapping)
            self.assertEqual(
                self.disks_of(server),
                checks.by_domain(self.cloud, server),
            )
        self.check_guest_config(servers['round-robin'])
        # only one of the flavors has a configuration for guests
        self.assertIn(
            'boothook',
            checks.vendor_data(self.cloud, host, servers['round-robin']),
        )
        self.assertEqual(
            '', checks.vendor_data(self.cloud, host, servers['consolidated'])
        )
        for server in servers.values():
            self.api.delete_server(server)
            self.assertEqual({}, checks.claims(self.cloud, server))
        self.eventually('volumes gone', lambda: not self.api.volumes())
        self.assertEqual({}, checks.by_files(self.cloud, host))
        self.eventually('map empty', lambda: self.cloud.map()['servers'] == [])

    def check_guest_config(self, server):
        serials = guest_settings.serials(self.cloud, server)
        self.assertEqual(base.VDISKS, len(serials))
        found = guest_settings.settings(
            self.cloud, '--server', server, '--for', 'hadoop'
        )
        self.assertEqual(serials, found['volumes'])

    def test_map_tells_a_disagreement(self):
        host = 'compute2'
        server = self.boot('consolidated', host)
        self.assert_mapped(server, 'consolidated')
        volume, disk = next(iter(self.disks_of(server).items()))
        disks = self.cloud.state.disk_root(host)
        other = next(
            path
            for path in disks.iterdir()
            if (path / 'vdisks').is_dir() and path.name != disk
        )
        name = f'vdisks/volume-{volume}'
        there, elsewhere = disks / disk / name, other / name

        def move(source, target):
            process.run('cp', '--preserve=all', str(source), str(target))
            source.unlink()

        move(there, elsewhere)
        self.addCleanup(lambda: elsewhere.exists() and move(elsewhere, there))

        self.eventually(
            'map of the moved vdisk',
            lambda: (
                sorted(self.statuses(server))
                == ['ok'] * (base.VDISKS - 1) + ['pending', 'unclaimed']
            ),
        )
        move(elsewhere, there)
        self.eventually(
            'map', lambda: self.statuses(server) == ['ok'] * base.VDISKS
        )
