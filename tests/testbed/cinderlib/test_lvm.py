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

"""cinderlib's functional tests against the driver with the LVM backend."""

import os
from unittest import mock

from cinder import monkey_patch

# on eventlet, as Cinder's own tests and services, which comes before the rest
monkey_patch.patch()

import fixtures  # noqa: E402

# read when the tests are imported
os.environ['DISKPLACER_CINDERLIB_BACKEND'] = 'lvm'

from nova_diskplacer.disks.lvm import prepare as lvm_prepare  # noqa: E402
from tests import loops  # noqa: E402
from tests.functional.cinderlib import test_vdisk  # noqa: E402
from tests.testbed.lvm import base  # noqa: E402
from tools.testbed import udev  # noqa: E402


class SpareDevice(fixtures.Fixture):
    """A disk of the guest in the place of a loop device."""

    taken: set[str] = set()

    def __init__(self, size_gb):
        super().__init__()

    def _setUp(self):
        self.device = next(
            one for one in base.spare_devices() if one not in self.taken
        )
        self.taken.add(self.device)
        self.addCleanup(self.taken.discard, self.device)
        base.erase(self.device)
        self.addCleanup(base.erase, self.device)


class ThickTestCase(test_vdisk.VDiskTestCase):
    """Volumes are zeroed when they are bound: disks need not be."""

    options = lvm_prepare.Options(zero=False)

    # without loop devices, which the guest does not have, they must run too
    __unittest_skip__ = False

    @classmethod
    def setUpClass(cls):
        for target, name, value in (
            (loops, 'LoopDevice', SpareDevice),
            (test_vdisk, 'LVM', cls.options),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            cls.addClassCleanup(patch.stop)
        super().setUpClass()

    def _root_execute(self, *args, **kwargs):
        done = super()._root_execute(*args, **kwargs)
        udev.settle()
        return done


class ThinTestCase(ThickTestCase):
    options = lvm_prepare.Options(thin=True)
