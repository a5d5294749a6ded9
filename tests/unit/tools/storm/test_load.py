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


"""What clients choose to do."""

import random

import hypothesis
import testtools
from hypothesis import strategies

from tools.storm import clients
from tools.storm import content
from tools.storm import load
from tools.storm.load import Owned
from tools.storm.load import Server
from tools.storm.load import Snapshot
from tools.storm.load import Volume


def volume(server=None, snapshots=0, bound=True, size=1):
    kept = [Snapshot(str(n), content.Content(1)) for n in range(snapshots)]
    return Volume('volume', content.Content(size), server, kept, bound)


class ChooseTest(testtools.TestCase):
    def names(self, owned, seeds=300):
        return {
            load.choose(random.Random(seed), owned).name
            for seed in range(seeds)
        }

    def test_nothing_is_owned(self):
        self.assertEqual({'boot', 'create-volume'}, self.names(Owned()))

    def test_attached_volume(self):
        server = Server('server', 'storm-2', 'host')
        found = self.names(Owned([server], [volume(server)]))
        self.assertTrue({'detach', 'write', 'read', 'snapshot'} <= found)
        self.assertEqual(
            set(),
            found & {'attach', 'extend', 'clone', 'revert', 'delete-volume'},
        )

    def test_free_volume(self):
        server = Server('server', 'storm-2', 'host')
        found = self.names(Owned([server], [volume(), volume(snapshots=1)]))
        self.assertTrue({'attach', 'extend', 'revert', 'read'} <= found)
        self.assertNotIn('write', found)

    def test_volume_that_was_never_attached(self):
        found = self.names(Owned([], [volume(bound=False)]))
        self.assertEqual({'boot', 'create-volume', 'delete-volume'}, found)

    def test_volume_whose_content_is_not_known(self):
        one = volume()
        one.content = None
        found = self.names(Owned([Server('s', 'storm-4', 'h')], [one]))
        self.assertEqual(
            set(), found & {'attach', 'read', 'snapshot', 'clone', 'extend'}
        )

    def test_bounds(self):
        servers = [Server(str(n), 'storm-3', 'h') for n in range(load.SERVERS)]
        volumes = [
            volume(snapshots=load.SNAPSHOTS) for _ in range(load.VOLUMES)
        ]
        found = self.names(Owned(servers, volumes))
        self.assertEqual(
            set(),
            found
            & {'boot', 'create-volume', 'snapshot', 'clone', 'from-snapshot'},
        )

    def test_volumes_do_not_grow_for_ever(self):
        found = self.names(Owned([], [volume(size=load.MAX_GB)]))
        self.assertNotIn('extend', found)

    @hypothesis.given(strategies.integers())
    @hypothesis.settings(max_examples=20, deadline=None)
    def test_same_numbers_same_operation(self, seed):
        owned = Owned([Server('s', 'storm-2', 'h')], [volume(), volume()])
        chosen = [load.choose(random.Random(seed), owned) for _ in 'ab']
        self.assertEqual(*chosen)

    def test_every_operation_can_be_done(self):
        for name in load.WEIGHTS:
            method = '_' + name.replace('-', '_')
            self.assertTrue(callable(getattr(clients.Client, method)), name)

    def test_flavors_that_are_booted_and_resized_to_exist(self):
        names = {one.name for one in load.FLAVORS}
        self.assertTrue(set(load.BOOTED) <= names)
        self.assertEqual(names, set(load.RESIZES))
        for wanted in load.RESIZES.values():
            self.assertTrue(set(wanted) <= names)
