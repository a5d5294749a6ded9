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

import dataclasses
from unittest import mock

import testtools

from cinder_vdisk_mapper.server_moves import checks
from tests.unit.cinder_vdisk_mapper.attach import test_binding

GOOD = checks.Facts(
    here=frozenset(('here', 'here.example')),
    server=test_binding.server(host='there'),
    connector={'host': 'there', 'initiator': 'iqn'},
    attached=frozenset(('here',)),
    elsewhere=True,
    of_flavor=True,
    is_block=True,
    target_helper='lioadm',
    is_striped=False,
    is_encrypted=False,
    has_group=False,
    has_snapshots=False,
    is_migrated=False,
)


class MoveTestCase(testtools.TestCase):
    def is_move(self, task=None, **fields):
        host = fields.pop('host', 'there')
        server = dataclasses.replace(test_binding.server(host=host), task=task)
        return checks.is_move(
            dataclasses.replace(GOOD, server=server, **fields)
        )

    def test_moves(self):
        for task in (
            'resize_finish',
            'resize_reverting',
            'spawning',
            'rebuild_block_device_mapping',
        ):
            self.assertTrue(self.is_move(task))
        for name in GOOD.here:
            self.assertTrue(self.is_move('migrating', host=name))
        # unshelved: it has no host until its volumes are attached
        self.assertTrue(self.is_move('spawning', host=None))

    def test_others(self):
        self.assertFalse(self.is_move(host='here'))
        self.assertFalse(self.is_move('rebooting', host='here'))
        self.assertFalse(self.is_move('migrating', host='third'))
        self.assertFalse(self.is_move(host=None))
        self.assertFalse(self.is_move('resize_finish', host=None))
        # what a user attaches to a server that claims more than it has
        self.assertFalse(self.is_move())
        self.assertFalse(self.is_move('block_device_mapping'))
        # only Nova claims disks
        self.assertFalse(self.is_move('resize_finish', elsewhere=False))
        self.assertFalse(
            checks.is_move(dataclasses.replace(GOOD, server=None))
        )


class BlockTestCase(testtools.TestCase):
    def is_block(self, attached, linked, **fields):
        backend = mock.Mock(**fields)
        backend.is_linked_to_device.return_value = linked
        return checks._is_block(backend, 'volume-1', attached)

    def test_logical_volumes(self):
        fields = {'connection_type': 'local', 'makes_devices': False}
        self.assertTrue(self.is_block(True, False, **fields))

    def test_files(self):
        fields = {'connection_type': 'gpfs', 'makes_devices': True}
        for attached, linked, expected in (
            (False, False, True),
            (False, True, True),
            (True, True, True),
            (True, False, False),
        ):
            self.assertEqual(
                expected, self.is_block(attached, linked, **fields)
            )


class RefusalTestCase(testtools.TestCase):
    def test_none(self):
        self.assertEqual('', checks.refusal(GOOD))
        both = GOOD.attached | {'there'}
        self.assertEqual(
            '', checks.refusal(dataclasses.replace(GOOD, attached=both))
        )

    def test_each_by_name(self):
        for reason, change in (
            ('none of the vdisks of the flavor', {'of_flavor': False}),
            ('striped', {'is_striped': True}),
            ('encrypted', {'is_encrypted': True}),
            ('snapshots', {'has_snapshots': True}),
            ('in a group', {'has_group': True}),
            ('is being migrated', {'is_migrated': True}),
            ('on a third host', {'attached': frozenset(('third',))}),
            ('as a file, not as a block', {'is_block': False}),
            ('target_helper=lioadm', {'target_helper': 'tgtadm'}),
            ('no iSCSI initiator', {'connector': {'host': 'there'}}),
        ):
            facts = dataclasses.replace(GOOD, **change)
            self.assertIn(reason, checks.refusal(facts))
