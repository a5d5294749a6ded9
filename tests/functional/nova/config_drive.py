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

"""Writes the config drive of a server without user data, as Nova makes it.

``python -m tests.functional.nova.config_drive FILE VDISKS GIB GUEST`` does so
for a flavor that has so many vdisks of so many GiB and asks for a framework.
"""

import sys
import unittest

from nova.virt import configdrive

from tests.functional.nova import vendordata


class Writer(vendordata.VendorDataTestCase):
    def write(self):
        path, vdisks, gib, guest = sys.argv[1:]
        server = self.boot(
            self.flavor(vdisks=vdisks, vdisk_gb=gib, guest=guest)
        )
        drive = configdrive.ConfigDriveBuilder(self.metadata(server))
        drive.make_drive(path)


def main():
    result = unittest.TextTestRunner().run(Writer('write'))
    return 0 if result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
