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

"""What the LVM backend wipes of a volume that Cinder's driver deletes."""

from unittest import mock

from cinder_vdisk_mapper.backend import lvm as backend_lvm
from nova_diskplacer.disks.lvm import group_changes
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from tests.testbed.lvm import base

MIB = base.MIB
SIZE = 16 * MIB


class WipeTestCase(base.LVMTestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(
            backend_lvm.privsep_lvm.context.set_client_mode,
            backend_lvm.privsep_lvm.context.client_mode,
        )
        self.backend = backend_lvm.LVMBackend(self.root)
        self.backend.configuration = mock.Mock(
            volume_clear='zero', volume_clear_size=0, volume_clear_ionice='-c3'
        )

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.thick = cls.prepared(cls.spare[0]).uuid
        cls.thin = cls.prepared(cls.spare[1], thin=True).uuid

    def secret(self):
        """Make a volume with content; returns where that is on the disk."""
        volumes.create(self.thick, 'volume-1', '1', None, SIZE)
        path = naming.device_path(self.thick, 'volume-1')
        base.write(path, base.pattern('secret'), *range(0, SIZE, MIB))
        places = base.places(self.thick, 'volume-1')
        self.assertFalse(base.is_zero(self.spare[0], places))
        return places

    def test_wipe(self):
        for by_itself in (False, True):
            places = self.secret()
            with mock.patch.object(
                backend_lvm,
                '_supports_write_zeroes',
                return_value=by_itself,
            ):
                self.backend.delete(self.thick, 'volume-1')
            self.assertTrue(base.is_zero(self.spare[0], places))
            self.assertTrue(groups.require(self.thick).zeroed)
            self.assertEqual((), self.backend.disk(self.thick).vdisks)

    def test_wipe_less(self):
        for clear, megabytes in (('none', 0), ('zero', 1)):
            places = self.secret()
            (start, size), *others = places
            self.backend.configuration.volume_clear = clear
            self.backend.configuration.volume_clear_size = megabytes
            self.backend.delete(self.thick, 'volume-1')
            self.assertEqual(
                bool(megabytes),
                base.is_zero(self.spare[0], [(start, MIB)]),
            )
            self.assertFalse(
                base.is_zero(self.spare[0], [(start + MIB, size - MIB)])
            )
            # the next one reads as zeros all the same
            self.assertFalse(groups.require(self.thick).zeroed)
            volumes.create(self.thick, 'volume-2', '2', None, SIZE)
            self.assertEqual(places, base.places(self.thick, 'volume-2'))
            self.assertTrue(base.is_zero(self.spare[0], places))
            self.backend.configuration.volume_clear = 'zero'
            self.backend.configuration.volume_clear_size = 0
            self.backend.delete(self.thick, 'volume-2')
            group_changes.mark_zeroed(self.thick)
