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

"""The same operations where vdisks are attached as loop devices."""

import os
import stat

from cinder_vdisk_mapper.cinder_api.releases import db_api
from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import devices
from tests.functional.crash import cloud as cloud_
from tests.functional.crash import drains
from tests.functional.crash import operations
from tests.functional.crash.operations import expect


class BindAsDevice(operations.BindClaimed):
    """The first attachment makes a loop device."""

    connection = 'block'

    def check(self, cloud, made):
        super().check(cloud, made)
        expect_device(cloud, cloud.get(made['volume']))


class Detach(operations.BindClaimed):
    """Nova deletes the attachment of a volume that has a loop device."""

    connection = 'block'

    def prepare(self, cloud):
        made = super().prepare(cloud)
        super().perform(cloud, made)
        volume = cloud.set(cloud.get(made['volume']), status='detaching')
        cloud.write(volume, 'a')
        return made

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).attachment_delete(
            cloud.context, made['attachment'], volume
        )

    def answered(self, cloud, made):
        db_api.volume_detached(
            cloud.context, made['volume'], made['attachment']
        )

    def again(self, cloud, made):
        self.perform(cloud, made)
        self.answered(cloud, made)

    def survived(self, cloud, made):
        operations.expect_text(cloud, 'a', cloud.get(made['volume']))

    def check(self, cloud, made):
        volume = cloud.set(cloud.get(made['volume']), status='available')
        expect([], cloud.with_device(), 'devices')
        operations.expect_text(cloud, 'a', volume)


class _DeviceDrain(drains.DrainInUse):
    connection = 'block'

    # what is deleted is deleted as in a drain of files
    ways = (operations.AGAIN,)

    def survived(self, cloud, made):
        super().survived(cloud, made)
        # whatever was killed, a server starts
        path = made['path']
        expect(True, stat.S_ISBLK(os.stat(path).st_mode), 'a device')

    def check(self, cloud, made):
        super().check(cloud, made)
        expect_device(cloud, cloud.get(made['volume']))


class DrainDeviceInUse(_DeviceDrain):
    """Empties the disk of a server that runs with a loop device."""

    beside = drains.DrainInUse


class DrainDeviceStopped(_DeviceDrain):
    """Empties the disk of a server that is stopped."""

    runs = False
    beside = drains.DrainStopped


def expect_device(cloud, volume):
    """See that the link of a volume leads to its device, the only one."""
    place = devices.path(volume.provider_location, volume.name)
    path = links.path(cloud.disk_root, volume.name)
    expect(place, os.readlink(path), 'link')
    expect(True, stat.S_ISBLK(os.stat(path).st_mode), 'a device')
    expect([volume.name], cloud.with_device(), 'devices')
    with open(path, 'rb') as device:
        size = device.seek(0, os.SEEK_END)
    expect(volume.size * cloud_.GIB, size, 'size of the device')


OPERATIONS = (BindAsDevice, Detach, DrainDeviceInUse, DrainDeviceStopped)
