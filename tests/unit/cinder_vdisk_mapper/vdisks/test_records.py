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

"""Tests of what is read of a row of Cinder's database."""

import types
import unittest

from cinder_vdisk_mapper.vdisks import records

SERVER = '6c4a1e4e-6a6e-4d7e-8f26-6c4b1b6a4d5c'


class ConnectionsTest(unittest.TestCase):
    def test_of_servers(self):
        attachments = [
            types.SimpleNamespace(
                attach_status=status,
                instance_uuid=server,
                connection_info=connection,
            )
            for status, server, connection in (
                ('attached', SERVER, '{"driver_volume_type": "local"}'),
                ('attached', SERVER, '{"driver_volume_type": "local"}'),
                ('detached', SERVER, '{"driver_volume_type": "gpfs"}'),
                ('attached', None, '{"driver_volume_type": "iscsi"}'),
                ('attaching', SERVER, None),
                ('attaching', SERVER, ''),
            )
        ]
        row = types.SimpleNamespace(volume_attachment=attachments)
        self.assertEqual({'local'}, records._connections(row))


class BlankOfTest(unittest.TestCase):
    def _blank_of(self, *users, **changes):
        row = {
            'display_name': f'{SERVER}-blank-vol',
            'status': 'attaching',
            'provider_location': 'disk',
            'deleted': False,
            'volume_attachment': [
                types.SimpleNamespace(instance_uuid=user) for user in users
            ],
            **changes,
        }
        return records._blank_of(types.SimpleNamespace(**row))

    def test_before_it_is_attached(self):
        for status in ('creating', 'reserved', 'attaching', 'error'):
            self.assertEqual(SERVER, self._blank_of(SERVER, status=status))
        self.assertEqual(
            SERVER, self._blank_of(status='available', provider_location=None)
        )

    def test_kept_or_used(self):
        for changes in (
            {'status': 'available'},
            {'status': 'in-use'},
            {'deleted': True},
            {'display_name': 'renamed'},
            {'display_name': 'my-blank-vol'},
            {'display_name': None},
        ):
            self.assertIsNone(self._blank_of(SERVER, **changes), changes)
        self.assertIsNone(self._blank_of(SERVER, 'another server'))
