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

"""cinder-volume's driver as an unprivileged user: see test_users.

``volume`` has volumes live and end, ``deleted`` leaves the row of a volume
that was deleted. What the driver raises ends the process.
"""

import os
import sqlite3
import sys

CONNECTOR = {'host': 'host1'}


def live(conf, medium, project, type_id, server, times):
    """Have volumes of a server live: bound, frozen, extended, deleted."""
    from cinder import objects

    objects.register_all()
    from cinder import context as cinder_context
    from cinder.volume import configuration
    from cinder.volume import manager
    from oslo_config import cfg

    from cinder_vdisk_mapper import driver

    if os.geteuid() == 0:
        raise AssertionError('this is to be an unprivileged user')
    cfg.CONF([], project='cinder', default_config_files=[conf])
    options = configuration.Configuration(
        manager.volume_backend_opts, config_group=medium
    )
    context = cinder_context.get_admin_context()
    backend = driver.VDiskMapperDriver(
        host=f'host1@{medium}', configuration=options
    )
    backend.do_setup(context)
    backend.check_for_setup_error()
    common = {
        'user_id': project,
        'project_id': project,
        'volume_type_id': type_id,
        'use_quota': False,
    }
    for _ in range(int(times)):
        volume = objects.Volume(
            context,
            size=1,
            # the audit leaves alone what is worked on
            status='attaching',
            host=f'host1@{medium}#{medium}',
            **common,
        )
        volume.create()
        attachment = objects.VolumeAttachment(
            context,
            volume_id=volume.id,
            instance_uuid=server,
            attach_status='reserved',
        )
        attachment.create()
        volume = objects.Volume.get_by_id(context, volume.id)
        volume.update(backend.create_export(context, volume, CONNECTOR))
        volume.save()
        snapshot = objects.Snapshot(
            context,
            volume_id=volume.id,
            volume_size=1,
            status='creating',
            **common,
        )
        snapshot.create()
        snapshot.provider_location = volume.provider_location
        backend.create_snapshot(snapshot)
        backend.delete_snapshot(snapshot)
        snapshot.destroy()
        backend.extend_volume(volume, 2)
        backend.delete_volume(volume)
        attachment.destroy()
        volume.destroy()
    return 0


def leave(conf, id_):
    """Leave the row of a deleted volume in the database."""
    with sqlite3.connect(conf.replace('cinder.conf', 'cinder.sqlite')) as db:
        db.execute('PRAGMA busy_timeout = 60000')
        db.execute(
            'INSERT INTO volumes (id, volume_type_id, size, status, host, '
            'deleted, use_quota, created_at) '
            "VALUES (?, '', 1, 'deleted', 'host1@hdd#hdd', 1, 0, "
            "'2026-01-01 00:00:00')",
            (id_,),
        )
    return 0


if __name__ == '__main__':
    actions = {'deleted': leave, 'volume': live}
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]))
