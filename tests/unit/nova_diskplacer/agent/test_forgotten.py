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

from unittest import mock

from oslotest import base

from nova_diskplacer.agent import forgotten
from nova_diskplacer.placement import client as placement_client

NODE = 'compute-1'
KEPT = 60.0


def provider(uuid, parent=None, node=NODE):
    """Return the provider of a disk of a node."""
    return placement_client.Provider(
        uuid, forgotten.name(node, uuid), 1, parent, parent or uuid
    )


class ForgottenTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.present = {'a': provider('a'), 'b': provider('b')}
        self.client = mock.create_autospec(
            placement_client.PlacementClient, instance=True
        )
        self.client.provider.side_effect = lambda uuid: self.present.get(uuid)
        self.client.delete_provider.side_effect = lambda uuid: (
            self.present.pop(uuid)
        )
        self.client.forgotten.side_effect = lambda: list(self.present.values())
        self.forgotten = forgotten.Forgotten(
            self.client, NODE, lambda: KEPT, lambda: self.now
        )

    def expire(self):
        self.now += KEPT + 1
        self.forgotten.delete_expired()

    def test_deleted_when_their_time_is_over(self):
        self.forgotten.load()
        self.now = KEPT
        self.forgotten.delete_expired()
        self.assertEqual({'a', 'b'}, {*self.present})
        self.expire()
        self.assertEqual({}, self.present)

    def test_a_provider_that_is_in_a_tree_again_stays(self):
        # nova-compute of that host fails without it
        self.forgotten.load()
        self.present['a'] = provider('a', parent='root')
        self.expire()
        self.assertEqual({'a'}, {*self.present})
        # one that leaves the tree again begins anew
        self.present['a'] = provider('a')
        self.expire()
        self.assertEqual({'a'}, {*self.present})

    def test_a_provider_in_a_tree_is_not_loaded(self):
        self.present['a'] = provider('a', parent='root')
        self.forgotten.load()
        self.present['a'] = provider('a')
        self.expire()
        self.assertEqual({'a'}, {*self.present})

    def test_those_of_other_hosts_stay(self):
        self.present['a'] = provider('a', node='other')
        self.forgotten.load()
        self.forgotten.add('a')
        self.expire()
        self.assertEqual({'a'}, {*self.present})

    def test_without_a_retention_all_stay(self):
        self.forgotten = forgotten.Forgotten(
            self.client, NODE, lambda: None, lambda: self.now
        )
        self.forgotten.load()
        self.expire()
        self.assertEqual({'a', 'b'}, {*self.present})
