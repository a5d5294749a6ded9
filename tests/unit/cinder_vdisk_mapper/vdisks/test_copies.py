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
import unittest
from unittest import mock

from cinder_vdisk_mapper.vdisks import copies
from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import GIB
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

NAME = 'volume-1'
VDISK = fake_disks.make_vdisk('1', None, 2)


def disk(uuid, vdisk=VDISK, **values):
    held = [vdisk] if vdisk else []
    return fake_disks.make_disk(uuid, held=held, **values)


class LackTestCase(unittest.TestCase):
    def test_whole(self):
        for size in (0, GIB, 2 * GIB):
            self.assertEqual('', copies.lack(disk('a'), NAME, size))

    def test_not_whole(self):
        incomplete = dataclasses.replace(VDISK, usable=False)
        for word, found in (
            ('a is missing', disk('a', None, health='missing')),
            ('a is missing', disk('a', health='missing')),
            ('a is hung', disk('a', health='hung')),
            ('a is read-only', disk('a', health='read-only')),
            ('a is late', disk('a', late=True)),
            ('holds no vdisk', disk('a', None)),
            ('not complete', disk('a', incomplete)),
            ('2147483648 of 3221225472', disk('a')),
        ):
            self.assertIn(word, copies.lack(found, NAME, 3 * GIB))


class RefusalTestCase(unittest.TestCase):
    def refusal(self, linked='b', location='b', size=2 * GIB, **disks):
        disks = {'a': disk('a'), 'b': disk('b')} | disks
        return copies.refusal('a', NAME, linked, location, size, disks)

    def test_allowed(self):
        self.assertEqual('', self.refusal())
        # it was never attached
        self.assertEqual('', self.refusal(linked=None))
        # the copy is on a disk that is gone, or is gone itself
        self.assertEqual('', self.refusal(a=disk('a', None)))

    def test_not_known_to_be_elsewhere(self):
        for word, changes in (
            ('knows no disk', {'location': None}),
            ('knows no disk', {'location': ''}),
            ('leads to disk a', {'linked': 'a'}),
            ('on disk a', {'location': 'a'}),
            ('leads to disk c', {'linked': 'c'}),
            ('it is the volume', {'linked': 'a', 'location': 'a'}),
            ('it is the volume', {'linked': None, 'location': 'a'}),
        ):
            self.assertIn(word, self.refusal(**changes))

    def test_not_whole_elsewhere(self):
        longer = fake_disks.make_vdisk('1', None, 3)
        for word, changes in (
            ('b is missing', {'b': disk('b', None, health='missing')}),
            ('holds no vdisk', {'b': disk('b', None)}),
            ('has 2147483648', {'size': 3 * GIB}),
            # it was extended where nobody should have
            ('has 2147483648', {'a': disk('a', longer)}),
        ):
            self.assertIn(word, self.refusal(**changes))


class CondemnTestCase(unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.backend = fakes.Backend(disk('a'), disk('b'))

    def test_it_is_deleted(self):
        copies.condemn(self.backend, 'a', NAME, 'b', 2 * GIB)
        self.assertEqual(['b'], self.backend.disks_holding(NAME))
        # repeatable
        copies.condemn(self.backend, 'a', NAME, 'b', 2 * GIB)

    def test_it_stays(self):
        for location, linked in (('a', 'a'), ('b', 'a'), (None, None)):
            self.backend.linked = {NAME: linked}
            with self.assertRaisesRegex(exception.DiskError, 'not deleted'):
                copies.condemn(self.backend, 'a', NAME, location)
        self.backend.known['b'] = disk('b', None)
        self.backend.linked = {}
        with self.assertRaisesRegex(exception.DiskError, 'holds no vdisk'):
            copies.condemn(self.backend, 'a', NAME, 'b')
        self.assertEqual(['a'], self.backend.disks_holding(NAME))

    def test_the_disk_of_the_link_is_not_known(self):
        with mock.patch.object(
            self.backend, 'linked_disk', side_effect=exception.DiskError('EIO')
        ):
            for location in ('a', 'b', None):
                with self.assertRaisesRegex(exception.DiskError, 'EIO'):
                    copies.condemn(self.backend, 'a', NAME, location)
        self.assertEqual(['a', 'b'], self.backend.disks_holding(NAME))

    def test_check_whole(self):
        copies.check_whole(self.backend, 'a', NAME, 2 * GIB)
        with self.assertRaisesRegex(exception.DiskError, 'holds no vdisk'):
            copies.check_whole(self.backend, 'a', 'volume-2', GIB)
