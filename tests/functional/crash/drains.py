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


"""The disk of a volume is emptied, while its server runs or is stopped.

A drain is a process of its own, beside cinder-volume, and is killed likewise.
"""

import dataclasses
import os

from oslo_config import cfg

from cinder_vdisk_mapper.cinder_api.releases import db_api
from cinder_vdisk_mapper.drain import setup
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.disks import discover
from nova_diskplacer.host import files
from tests.functional.crash import cloud as cloud_
from tests.functional.crash import operations
from tests.functional.crash.operations import expect


class DrainInUse(operations.BindClaimed):
    """Empties the disk of a server that runs."""

    runs = True
    text = 'b'

    def prepare(self, cloud):
        made = super().prepare(cloud)
        volume = cloud.get(made['volume'])
        connection = cloud.manager_of(volume).attachment_update(
            cloud.context, volume, dict(cloud_.CONNECTOR), made['attachment']
        )
        db_api.volume_attachment_update(
            cloud.context,
            made['attachment'],
            {
                'attach_status': 'attached',
                'connection_info': cloud_.json.dumps(connection),
            },
        )
        volume = cloud.set(cloud.get(volume.id), status='in-use')
        cloud.write(volume, self.text)
        if self.runs:
            cloud.guests.boot(connection['device_path'])
            cloud.guests.ask('write', 'c')
        return {**made, 'path': connection['device_path']}

    def perform(self, cloud, made):
        stays = drainer(cloud).drain(cloud.claimed)
        expect({}, stays, 'what stays')

    def again(self, cloud, made):
        self.perform(cloud, made)

    def survived(self, cloud, made):
        """What the server has written is there, and it goes on."""
        if self.runs:
            cloud.guests.ask('write', 'c')
        expect(
            'c' if self.runs else self.text, cloud.read(made['path']), 'link'
        )

    def check(self, cloud, made):
        if self.runs:
            cloud.guests.ask('write', 'd')
        volume = cloud.get(made['volume'])
        places = [disk for disk, name in cloud.held() if name == volume.name]
        expect([volume.provider_location], places, 'places')
        if places == [cloud.claimed]:
            raise AssertionError('it has not moved')
        if self.connection == 'file':
            expect(
                os.path.realpath(cloud.path(volume)),
                os.path.realpath(made['path']),
                'link',
            )
        operations.expect_text(cloud, 'd' if self.runs else self.text, volume)
        operations.expect_size(cloud, 1, volume)
        claims = cloud.client.allocations(cloud_.CLAIMING).resources
        expect(places, [*claims], 'claims')

    def end(self, cloud, made):
        cloud.guests.end()
        discover.set_draining(cloud.disk_root, cloud.claimed, False)
        cloud.publish()
        cloud.claim()


class DrainStopped(DrainInUse):
    """Empties the disk of a server that is stopped."""

    runs = False

    # what is deleted is deleted as in DrainInUse, whose server is gone then
    ways = (operations.AGAIN,)


class CancelledDrain(DrainInUse):
    """A drain that was killed is undone.

    Its victims are those of :class:`DrainInUse`, which deletes all as well.
    """

    ways = (operations.AGAIN,)

    def again(self, cloud, made):
        stays = drainer(cloud).cancel(cloud.claimed)
        expect({}, stays, 'what stays')

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        held = [disk for disk, name in cloud.held() if name == volume.name]
        expect([volume.provider_location], held, 'places')
        cloud.guests.ask('write', 'd')
        expect('d', cloud.read(made['path']), 'link')
        operations.expect_text(cloud, 'd', volume)
        claims = cloud.client.allocations(cloud_.CLAIMING).resources
        expect(held, [*claims], 'claims')


def drainer(cloud):
    """Return the drainer of the host's disks."""
    cfg.CONF.register_opt(diskplacer.LOCK_DIR, group=diskplacer.GROUP.name)
    files.set_lock_directory(cfg.CONF.diskplacer.lock_dir)
    made = setup.from_conf(
        cfg.CONF, cloud.claimed, 'none', 0, lambda *progress: None
    )
    surveyor = dataclasses.replace(made.surveyor, guests=cloud.guests)
    return dataclasses.replace(made, surveyor=surveyor)


OPERATIONS = (DrainInUse, DrainStopped, CancelledDrain)
