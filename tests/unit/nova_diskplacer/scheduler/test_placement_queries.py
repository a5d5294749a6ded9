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

"""Tests of the scheduler's queries, with Nova's client of Placement replaced.

The answers are those of Placement; ``tests/functional/nova`` has a real one.
"""

import json
import types
import unittest
from unittest import mock

from keystoneauth1 import exceptions as ks_exc

from nova_diskplacer import flavor
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.scheduler import placement_queries


def response(body, status=200):
    text = body if isinstance(body, str) else json.dumps(body)
    return types.SimpleNamespace(
        status_code=status,
        text=text,
        content=text.encode(),
        json=lambda: json.loads(text),
    )


def providers(*roots):
    return response(
        {
            'resource_providers': [
                {
                    'uuid': f'disk{number}',
                    'name': f'disk{number}',
                    'generation': 1,
                    'parent_provider_uuid': root,
                    'root_provider_uuid': root,
                }
                for number, root in enumerate(roots)
            ]
        }
    )


class QueriesTest(unittest.TestCase):
    def setUp(self):
        self.client = mock.Mock()
        patch = mock.patch.object(
            placement_queries.report,
            'report_client_singleton',
            lambda: self.client,
        )
        patch.start()
        self.addCleanup(patch.stop)

    def test_disks_in_tree(self):
        gb = {'capacity': 90, 'used': 10}
        mbps = {'capacity': 150, 'used': 50}
        self.client.get.return_value = response(
            {
                'provider_summaries': {
                    'host': {'resources': {'VCPU': gb}},
                    'a': {'resources': {'CUSTOM_VDISK_GB': gb}},
                    'b': {
                        'resources': {
                            'CUSTOM_VDISK_GB': gb,
                            'CUSTOM_VDISK_MBPS': mbps,
                        }
                    },
                }
            }
        )
        self.assertEqual(
            {
                'a': placement_client.DiskCapacity(90, 10, 0, 0),
                'b': placement_client.DiskCapacity(90, 10, 150, 50),
            },
            placement_queries.disks_in_tree('host'),
        )
        self.client.get.assert_called_once_with(mock.ANY, version='1.39')

    def test_compute_nodes_with_room(self):
        self.client.get.return_value = providers('x', 'x', 'x', 'y', 'y')
        for mapping, per_disk, found in (
            ('round_robin', 1, {'x'}),
            ('round_robin', 2, {'x', 'y'}),
            ('consolidated', 1, {'x', 'y'}),
        ):
            request = flavor.VDiskRequest(3, 10, mapping, 'hdd', 30, per_disk)
            self.assertEqual(
                found, placement_queries.compute_nodes_with_room(request)
            )
        url = self.client.get.call_args.args[0]
        self.assertIn('CUSTOM_VDISK_GB%3A10%2CCUSTOM_VDISK_MBPS%3A30', url)
        self.assertIn('CUSTOM_DISKPLACER%2CSTORAGE_DISK_HDD', url)

    def test_compute_nodes_with_room_for_stripes(self):
        self.client.get.return_value = providers('x', 'x', 'x', 'y', 'y')
        for vdisks, per_disk, found in (
            (1, 1, {'x'}),
            (1, 2, {'x'}),
            (2, 2, {'x'}),
            (2, 1, set()),
        ):
            request = flavor.VDiskRequest(
                vdisks,
                10,
                'striped',
                vdisk_mbps=30,
                vdisks_per_disk=per_disk,
                stripe_disks=3,
            )
            self.assertEqual(
                found, placement_queries.compute_nodes_with_room(request)
            )
        url = self.client.get.call_args.args[0]
        self.assertIn('CUSTOM_VDISK_GB%3A4%2CCUSTOM_VDISK_MBPS%3A10', url)
        self.assertIn('CUSTOM_DISKPLACER%2CCUSTOM_DISKPLACER_LVM', url)

    def test_compute_nodes_with_disks(self):
        self.client.get.return_value = providers('x', 'x', 'y')
        self.assertEqual(
            {'x', 'y'}, placement_queries.compute_nodes_with_disks()
        )

    def test_failures_are_logged(self):
        for answer in (
            [ks_exc.ConnectFailure('refused')],
            [response('no such thing', 404)],
            [response('<html>')],
        ):
            self.client.get.side_effect = answer
            with self.assertLogs(
                placement_queries.LOG.logger, 'WARNING'
            ) as logs:
                self.assertIsNone(placement_queries.disks_in_tree('host'))
            self.assertIn('Query for disks failed', logs.output[0])
