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


import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.elastic import discovery
from nova_diskplacer.elastic import inputs
from tests.unit.nova_diskplacer.elastic import on_disks


def found(location):
    vdisk = inputs.ElasticVDisk(2, 1, Location(location))
    return {on_disks.VOLUME: discovery.Found(on_disks.NAME, vdisk)}


class FindTest(testtools.TestCase):
    def test_locations(self):
        for location in ('aaaa', 'aabb', 'acbd'):
            self.assertEqual(
                found(location),
                discovery.find(on_disks.disks(location, 'xyz'), {}),
            )

    def test_other_vdisks(self):
        for fields in (
            {'minimum': 0},
            {'usable': False},
            {'name': 'snapshot-1'},
        ):
            disks = on_disks.disks('ab', **fields)
            self.assertEqual({}, discovery.find(disks, {}))

    def test_leg_that_comes(self):
        """The target of a step is larger than its legs, or has none yet."""
        for old, new in (('aaaa', 'aabb'), ('aabb', 'aaaa')):
            disks = [
                on_disks.disk(
                    uuid,
                    on_disks.piece(
                        old,
                        uuid,
                        size_bytes=2
                        * GIB
                        * max(old.count(uuid), new.count(uuid)),
                    ),
                )
                for uuid in 'ab'
            ]
            self.assertEqual(found(old), discovery.find(disks, {}))

    def test_pieces_of_two_locations(self):
        a, b = (
            on_disks.disk('a', on_disks.piece('aaaa', 'a')),
            on_disks.disk('b', on_disks.piece('aabb', 'b')),
        )
        before = found('aaaa')
        self.assertEqual(before, discovery.find([a, b], before))
        # it was widened from b
        b = on_disks.disk('b', on_disks.piece('bbbb', 'b'))
        a = on_disks.disk('a', on_disks.piece('bbaa', 'a'))
        before = found('bbbb')
        self.assertEqual(before, discovery.find([b, a], {}))
        b = on_disks.disk('b', on_disks.piece('bbaa', 'b'))
        self.assertEqual(found('bbaa'), discovery.find([b, a], before))

    def test_source_that_is_left(self):
        disks = [
            on_disks.disk('a', on_disks.piece('aaaa', 'a')),
            on_disks.disk('b', on_disks.piece('aabb', 'b')),
        ]
        self.assertEqual(found('aaaa'), discovery.find(disks, {}))

    def test_missing_disk(self):
        _, b = on_disks.disks('aabb')
        self.assertEqual(found('aabb'), discovery.find([b], {}))
        self.assertEqual(found('bbbb'), discovery.find([b], found('bbbb')))

    def test_require(self):
        some = on_disks.disks('aabb')
        self.assertEqual(2, discovery.require(some, on_disks.VOLUME).width)
        for disks, text in ((some, 'volume'), ([], 'there are none')):
            error = self.assertRaises(
                exception.ElasticError, discovery.require, disks, 'x'
            )
            self.assertIn('x is not the ID of a volume that', str(error))
            self.assertIn(text, str(error))
