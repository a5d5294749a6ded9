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

"""The commands, with requests to the APIs answered by requests_mock."""

import argparse
import datetime
import importlib
import io
import json
import os
import pathlib
import tomllib
import types

import fixtures
import openstack.connection
import requests_mock
from keystoneauth1 import noauth
from keystoneauth1 import session as ks_session
from oslotest import base
from prometheus_client import parser
from requests_mock.contrib import fixture as requests_mock_fixture

from nova_diskplacer import exception
from nova_diskplacer.client.osc import disks
from nova_diskplacer.client.osc import plugin
from nova_diskplacer.client.osc import profiles
from nova_diskplacer.client.osc import vdisks

PLACEMENT = 'http://placement.test'
NOVA = 'http://nova.test/v2.1'
CINDER = 'http://cinder.test/v3'
ROOT = 'aaaaaaaa-0000-4000-8000-000000000000'
HDD, SSD = (f'{letter}0000000-0000-4000-8000-000000000000' for letter in 'bc')
SERVER = 'dddddddd-0000-4000-8000-000000000000'
VOLUMES = [f'eeeeeee{n}-0000-4000-8000-000000000000' for n in range(4)]


def provider(uuid, name):
    return {
        'uuid': uuid,
        'name': name,
        'generation': 1,
        'parent_provider_uuid': None if uuid == ROOT else ROOT,
        'root_provider_uuid': ROOT,
    }


def volume(id_, disk, **fields):
    return {
        'id': id_,
        'name': 'data',
        'size': 10,
        'provider_id': disk,
        'os-vol-tenant-attr:tenant_id': 'project',
        'attachments': [],
        **fields,
    }


class CommandTestCase(base.BaseTestCase):
    """A host with a healthy HDD and a hung SSD, and a server with 20 GiB."""

    def setUp(self):
        super().setUp()
        self.requests = self.useFixture(requests_mock_fixture.Fixture())
        self.requests.get(requests_mock.ANY, status_code=404)
        self.connection = openstack.connection.Connection(
            session=ks_session.Session(auth=noauth.NoAuth()),
            region_name='here',
            compute_endpoint_override=NOVA,
            block_storage_endpoint_override=CINDER,
            placement_endpoint_override=PLACEMENT,
            compute_default_microversion='2.90',
            block_storage_default_microversion='3.60',
            compute_api_version='2',
            block_storage_api_version='3',
        )
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.log = self.useFixture(fixtures.FakeLogger())
        for url, most in ((NOVA, '2.100'), (CINDER, '3.71')):
            self.requests.get(
                url,
                json={
                    'version': {
                        'id': 'v' + url[-1],
                        'status': 'CURRENT',
                        'version': most,
                        'min_version': '2.1',
                        'links': [{'rel': 'self', 'href': url}],
                    }
                },
            )
        self.requests.get(
            PLACEMENT,
            json={
                'versions': [
                    {
                        'id': 'v1.0',
                        'status': 'CURRENT',
                        'max_version': '1.39',
                        'min_version': '1.0',
                        'links': [{'rel': 'self', 'href': ''}],
                    }
                ]
            },
        )
        self.answer_placement()
        self.answer_nova()
        self.answer_cinder(
            volume(
                VOLUMES[0],
                HDD,
                attachments=[{'server_id': SERVER, 'device': '/dev/vdb'}],
            )
        )

    def answer_placement(self):
        all_disks = [provider(HDD, 'one'), provider(SSD, 'two')]
        with_trait = {
            'STORAGE_DISK_HDD': all_disks[:1],
            'STORAGE_DISK_SSD': all_disks[1:],
            'CUSTOM_DISKPLACER_HUNG': all_disks[1:],
        }

        def answer(request, _):
            if 'required' not in request.qs:
                root = provider(ROOT, 'compute-1.example.org')
                return {'resource_providers': [root, *all_disks]}
            named = request.qs['required'][0].upper().split(',')
            found = with_trait.get(named[-1], []) if named[1:] else all_disks
            return {'resource_providers': found}

        self.requests.get(f'{PLACEMENT}/resource_providers', json=answer)
        self.requests.get(
            f'{PLACEMENT}/traits', json={'traits': list(with_trait)}
        )
        self.requests.get(
            f'{PLACEMENT}/allocation_candidates',
            json={
                'provider_summaries': {
                    uuid: {
                        'resources': {
                            'CUSTOM_VDISK_GB': {'capacity': gb, 'used': used},
                            'CUSTOM_VDISK_MBPS': {'capacity': 200, 'used': 0},
                        }
                    }
                    for uuid, gb, used in ((HDD, 70, 20), (SSD, 0, 0))
                }
            },
        )
        for uuid, claims in ((HDD, {SERVER: 20}), (SSD, {})):
            self.requests.get(
                f'{PLACEMENT}/resource_providers/{uuid}/inventories',
                json={
                    'resource_provider_generation': 1,
                    'inventories': {
                        'CUSTOM_VDISK_GB': {'total': 100, 'reserved': 30},
                        'CUSTOM_VDISK_MBPS': {'total': 200, 'reserved': 0},
                    },
                },
            )
            self.requests.get(
                f'{PLACEMENT}/resource_providers/{uuid}/allocations',
                json={
                    'allocations': {
                        server: {'resources': {'CUSTOM_VDISK_GB': gb}}
                        for server, gb in claims.items()
                    }
                },
            )

    def answer_nova(self, minutes=60, **specs):
        changed = datetime.datetime.now(datetime.UTC)
        changed -= datetime.timedelta(minutes=minutes)
        self.server = {
            'id': SERVER,
            'name': 'web',
            'status': 'ACTIVE',
            'tenant_id': 'project',
            'updated': changed.strftime('%Y-%m-%dT%H:%M:%SZ'),
            'flavor': {'extra_specs': {'diskplacer:profile': 'spark'}},
            'os-extended-volumes:volumes_attached': [
                {'id': VOLUMES[0]},
                {'id': VOLUMES[1]},
            ],
        }
        self.requests.get(
            f'{NOVA}/servers/detail', json={'servers': [self.server]}
        )
        self.requests.get(
            f'{NOVA}/servers/{SERVER}', json={'server': self.server}
        )
        shown = [
            {
                'id': f'id-{name}',
                'name': name,
                'vcpus': 4,
                'ram': 16384,
                'extra_specs': {
                    f'diskplacer:{key}': value for key, value in its.items()
                },
            }
            for name, its in (
                ('two', {'vdisks': '2', 'vdisk_gb': '10', **specs}),
                ('bare', {}),
            )
        ]
        self.requests.get(f'{NOVA}/flavors/detail', json={'flavors': shown})

    def answer_cinder(self, *volumes):
        self.requests.get(
            f'{CINDER}/volumes/detail', json={'volumes': [*volumes]}
        )
        for one in volumes:
            self.requests.get(
                f'{CINDER}/volumes/{one["id"]}', json={'volume': one}
            )

    def run_(self, command, *arguments, format_=None):
        """Return the exit status and the output."""
        app = types.SimpleNamespace(
            client_manager=types.SimpleNamespace(vdisk=self.connection),
            stdout=io.StringIO(),
            options=argparse.Namespace(),
        )
        one = command(app, argparse.Namespace())
        words = ['-f', format_] if format_ else []
        args = one.get_parser('openstack').parse_args([*words, *arguments])
        status = one.run(args)
        return status, app.stdout.getvalue()

    def json(self, command, *arguments):
        status, text = self.run_(command, *arguments, format_='json')
        return status, json.loads(text)


class MapTest(CommandTestCase):
    def test_names(self):
        status, rows = self.json(vdisks.ListVDisks)
        fields = {
            'snapshot': None,
            'gib': 10,
            'claimed_disk': HDD,
            'moving_from': None,
        }
        self.assertEqual(
            [
                {
                    'Host': 'compute-1.example.org',
                    'Server': 'web',
                    'VDisks': [
                        {
                            'device': 'vdb',
                            'volume': VOLUMES[0],
                            'actual_disk': HDD,
                            'status': 'ok',
                            **fields,
                        },
                        {
                            'device': None,
                            'volume': None,
                            'actual_disk': None,
                            'status': 'pending',
                            **fields,
                        },
                    ],
                    'GiB': 20,
                    'Status': '1 ok 1 pending',
                }
            ],
            rows,
        )
        # half of the claim has been without a vdisk for an hour
        self.assertEqual(3, status)
        self.assertIn('10 GiB are claimed and have no vdisk', self.log.output)
        self.assertEqual(0, self.run_(vdisks.ListVDisks, '--pending', '90')[0])

    def test_formats(self):
        for arguments, expected in (
            (('table',), r'\| compute-1 +\| web +\| vdb→b000 claim→b000 +\|'),
            (('csv', '-c', 'Server', '-c', 'GiB'), '"web",20'),
            (('value', '-c', 'Host'), 'compute-1.example.org\n'),
            (('yaml',), '  - actual_disk: b0000000'),
            (('csv', '--long'), f'"{VOLUMES[0]}",10,"{HDD}","{HDD}","-","ok"'),
        ):
            format_, *more = arguments
            _, text = self.run_(vdisks.ListVDisks, *more, format_=format_)
            self.assertRegex(text, expected)

    def test_uuids(self):
        _, rows = self.json(vdisks.ListVDisks, '--long', '--status', 'ok')
        self.assertEqual(
            [(SERVER, VOLUMES[0], HDD)],
            [(r['Server ID'], r['Volume'], r['Actual disk']) for r in rows],
        )

    def test_which(self):
        for arguments, count in (
            (('--server', 'web'), 1),
            (('--server', SERVER), 1),
            (('--server', 'other'), 0),
            (('--host', 'compute-1'), 1),
            (('--host', 'compute-1.example.org'), 1),
            (('--long',), 2),
            (('--status', 'unclaimed'), 0),
        ):
            self.assertEqual(
                count, len(self.json(vdisks.ListVDisks, *arguments)[1])
            )
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            vdisks.ListVDisks,
            '--host',
            'x',
        )
        self.assertIn('there are: compute-1.example.org', str(error))

    def test_server_of_a_detached_volume(self):
        blank = f'{SERVER}-blank-vol'
        self.answer_cinder(
            volume(VOLUMES[0], HDD, name=blank),
            volume(
                VOLUMES[1],
                HDD,
                name=blank,
                **{'os-vol-tenant-attr:tenant_id': 'other'},
            ),
            volume(VOLUMES[2], HDD),
            volume(VOLUMES[3], '192.0.2.1:3260'),
        )
        _, rows = self.json(vdisks.ListVDisks, '--long')
        self.assertEqual(
            [
                (SERVER, VOLUMES[0], 'ok'),
                (SERVER, '-', 'pending'),
                ('-', VOLUMES[1], 'unclaimed'),
                ('-', VOLUMES[2], 'unclaimed'),
            ],
            [(r['Server ID'], r['Volume'], r['Status']) for r in rows],
        )

    def test_html(self):
        path = os.path.join(self.dir, 'map.html')
        self.run_(vdisks.ListVDisks, '--html', path)
        self.assertIn(f'data-disk="{HDD}"', pathlib.Path(path).read_text())

    def test_no_disks(self):
        self.requests.get(
            f'{PLACEMENT}/resource_providers', json={'resource_providers': []}
        )
        self.assertEqual((0, []), self.json(vdisks.ListVDisks))

    def test_refused(self):
        self.requests.get(f'{NOVA}/servers/detail', status_code=403)
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_, vdisks.ListVDisks
        )
        self.assertIn('Nova and Cinder: ', str(error))


class CheckTest(CommandTestCase):
    def test_findings(self):
        self.answer_nova(mapping='nonsense')
        status, found = self.json(vdisks.Check)
        self.assertEqual(3, status)
        self.assertEqual(
            [('health', SSD), ('pending', SERVER), ('flavor', 'two')],
            [(one['Kind'], one['Subject']) for one in found],
        )

    def test_young_claim(self):
        self.answer_nova(minutes=5)
        _, found = self.json(vdisks.Check)
        self.assertEqual(['health'], [one['Kind'] for one in found])


class DiskTest(CommandTestCase):
    def test_list(self):
        status, rows = self.json(disks.ListDisks)
        self.assertEqual(0, status)
        self.assertEqual(
            [('b000', 'hdd', 'ok', 50, 200), ('c000', 'ssd', 'hung', 0, 200)],
            [
                tuple(
                    row[key]
                    for key in (
                        'Disk', 'Medium', 'Health', 'Free', 'MB/s free'
                    )
                )
                for row in rows
            ],
        )  # fmt: skip

    def test_show(self):
        _, disk = self.json(disks.ShowDisk, 'b0')
        self.assertEqual(
            (HDD, 30, 20, 50),
            tuple(
                disk[key]
                for key in ('uuid', 'reserved_gb', 'claimed_gb', 'free_gb')
            ),
        )
        self.assertIn(f'{VOLUMES[0]} 10 GiB web ok', disk['vdisks'])
        # of no other disk
        self.assertFalse(
            [o.path for o in self.requests.request_history if SSD in o.path]
        )
        for start, count in (('d', 0), ('', 2)):
            error = self.assertRaises(
                exception.DiskPlacerError, self.run_, disks.ShowDisk, start
            )
            self.assertIn(f'{count} disks', str(error))

    def test_capacity(self):
        for mapping, servers, limit in (
            ('round_robin', 0, 'disks'),
            ('consolidated', 2, 'GiB'),
        ):
            self.answer_nova(mapping=mapping, media='hdd')
            _, rows = self.json(vdisks.Capacity, '--flavor', 'two')
            self.assertEqual(
                [('compute-1.example.org', 1, 5, servers, limit)],
                [tuple(row.values()) for row in rows],
            )
        asked = [one.path for one in self.requests.request_history]
        self.assertEqual(2, asked.count('/allocation_candidates'))
        self.assertFalse([path for path in asked if HDD in path])
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            vdisks.Capacity,
            '--flavor',
            'bare',
        )
        self.assertIn('flavor bare has no vdisks', str(error))

    def test_capacity_of_all_hosts(self):
        self.answer_nova(mapping='consolidated')
        self.requests.get(
            f'{NOVA}/os-aggregates',
            json={
                'aggregates': [
                    # by the names of nova-compute's hosts
                    {'name': 'fast', 'hosts': ['rack-1']},
                    {'name': 'no disks', 'hosts': ['rack-3']},
                ]
            },
        )
        self.requests.get(
            f'{NOVA}/os-hypervisors/detail',
            json={
                'hypervisors': [
                    {
                        'id': f'id-of-{number}',
                        'hypervisor_hostname': f'compute-{number}.example.org',
                        'service': {'host': f'rack-{number}'},
                    }
                    for number in (1, 3)
                ]
            },
        )
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 'a.prom')
        _, rows = self.json(vdisks.Capacity, '--metrics', path)
        shown = 1, 2, 50, '29%', 50, 'two', 2, 1, 'GiB 10'
        self.assertEqual(
            [('(all hosts)', *shown), ('fast', *shown)],
            [tuple(row.values()) for row in rows],
        )
        with open(path) as stream:
            families = parser.text_string_to_metric_families(stream.read())
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }
        self.assertEqual(
            2, samples['diskplacer_fleet_servers', '(all hosts)', 'two']
        )
        self.assertEqual(
            10 << 30,
            samples[
                'diskplacer_fleet_stranded_bytes', '(all hosts)', 'two', 'GiB'
            ],
        )
        asked = [one.path for one in self.requests.request_history]
        self.assertFalse([path for path in asked if HDD in path])

    def test_metrics_of_one_flavor(self):
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            vdisks.Capacity,
            '--flavor=two',
            '--metrics=a.prom',
        )
        self.assertIn('not with --flavor', str(error))

    def test_metrics_that_cannot_be_written(self):
        self.requests.get(f'{NOVA}/os-aggregates', json={'aggregates': []})
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            vdisks.Capacity,
            '--metrics=/nowhere/a.prom',
        )
        self.assertIn('--metrics /nowhere/a.prom: ', str(error))


class FlavorTest(CommandTestCase):
    def test_list(self):
        _, rows = self.json(profiles.ListFlavors)
        self.assertEqual(
            [('two', 2, 10, 'round_robin', 'any', '', '')],
            [tuple(row.values()) for row in rows],
        )

    def test_show(self):
        self.answer_nova(profile='spark')
        _, shown = self.json(profiles.ShowFlavor, 'two')
        self.assertEqual((2, 10), (shown['vdisks'], shown['vdisk_gb']))
        self.assertIn('diskplacer:vdisks=2', shown['extra_specs'])

    def test_apply(self):
        url = f'{NOVA}/flavors/id-two/os-extra_specs'
        written = self.requests.post(url, json={'extra_specs': {}})
        _, text = self.run_(profiles.ApplyProfile, 'sequential_sync', 'two')
        self.assertIn('Nothing is changed without --yes.', text)
        self.assertFalse(written.called)
        _, text = self.run_(
            profiles.ApplyProfile, 'sequential_sync', 'two', '--yes'
        )
        self.assertIn('Flavor two has profile sequential_sync now.', text)
        self.assertEqual(
            'sequential_sync',
            written.last_request.json()['extra_specs']['diskplacer:profile'],
        )
        self.assertEqual(
            'compute 2.86',
            written.last_request.headers['OpenStack-API-Version'],
        )

    def test_apply_after_a_removal_that_failed(self):
        arguments = profiles.ApplyProfile, 'neutral', 'two', '--yes'
        url = f'{NOVA}/flavors/id-two/os-extra_specs'
        written = self.requests.post(url, json={'extra_specs': {}})
        keys = {'vdisks': '1', 'vdisk_gb': '8'}
        self.answer_nova(profile='cassandra', **keys)
        removals = [
            self.requests.delete(f'{url}/diskplacer:{key}', response)
            for key, response in (
                ('vdisks', [{'status_code': 202}, {'status_code': 404}]),
                ('vdisk_gb', [{'status_code': 504}, {'status_code': 202}]),
            )
        ]
        error = self.assertRaises(
            exception.DiskPlacerError, self.run_, *arguments
        )
        self.assertIn('flavor two: ', str(error))
        # it still has the profile whose keys are to be removed
        self.assertFalse(written.called)
        _, text = self.run_(*arguments)
        self.assertIn('Flavor two has profile neutral now.', text)
        self.assertEqual([2, 2], [one.call_count for one in removals])
        self.assertEqual(
            'neutral',
            written.last_request.json()['extra_specs']['diskplacer:profile'],
        )

    def test_refused(self):
        url = f'{NOVA}/flavors/id-two/os-extra_specs'
        self.requests.post(url, status_code=403)
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            profiles.ApplyProfile,
            'hadoop',
            'two',
            '--yes',
        )
        self.assertIn('flavor two: ', str(error))

    def test_check(self):
        self.assertEqual((0, []), self.json(profiles.CheckProfiles))
        self.answer_nova(profile='nonsense')
        status, found = self.json(profiles.CheckProfiles, 'two')
        self.assertEqual((3, 'two'), (status, found[0]['Flavor']))

    def test_profiles(self):
        _, rows = self.json(profiles.ListProfiles)
        self.assertIn('sequential_sync', [row['Profile'] for row in rows])
        _, rows = self.json(profiles.ShowProfile, 'hadoop')
        self.assertIn('priority', [row['Setting'] for row in rows])


class GuestConfigTest(CommandTestCase):
    def test_flavor(self):
        _, text = self.run_(
            profiles.GuestConfig, '--flavor', 'two', '--for', 'plain'
        )
        self.assertTrue(text.startswith('#cloud-config'), text[:40])

    def test_server(self):
        self.answer_cinder(volume(VOLUMES[0], HDD), volume(VOLUMES[1], None))
        arguments = ('--server', SERVER, '--for', 'spark')
        _, text = self.run_(
            profiles.GuestConfig, *arguments, '--format', 'script'
        )
        self.assertIn(f"'volumes': ['{VOLUMES[0][:20]}']", text)
        self.answer_cinder(volume(VOLUMES[0], None), volume(VOLUMES[1], None))
        error = self.assertRaises(
            exception.DiskPlacerError,
            self.run_,
            profiles.GuestConfig,
            *arguments,
        )
        self.assertIn('none of its 2 volumes is a vdisk', str(error))


class PluginTest(base.BaseTestCase):
    def test_entry_points(self):
        root = pathlib.Path(__file__).parents[5]
        with open(root / 'pyproject.toml', 'rb') as file:
            points = tomllib.load(file)['project']['entry-points']
        self.assertEqual(
            {'vdisk': plugin.__name__}, points['openstack.cli.extension']
        )
        version = plugin.DEFAULT_API_VERSION
        for target in points[
            f'openstack.{plugin.API_NAME}.v{version}'
        ].values():
            module, _, name = target.partition(':')
            command = getattr(importlib.import_module(module), name)
            self.assertTrue(command.__doc__)

    def test_client(self):
        instance = types.SimpleNamespace(sdk_connection='connection')
        self.assertEqual('connection', plugin.make_client(instance))
