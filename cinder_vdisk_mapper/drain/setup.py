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

"""Makes the drainer of a disk from cinder.conf."""

from cinder import context as cinder_context
from oslo_config import cfg

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.drain import drainer
from cinder_vdisk_mapper.drain import survey
from cinder_vdisk_mapper.moves import guests
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client


def from_conf(
    config: cfg.ConfigOpts,
    uuid: str,
    libvirt_uri: str,
    rate: int,
    progress: drainer.Progress,
) -> drainer.Drainer:
    """Return the drainer of the backend that has a disk.

    :param rate: MiB/s of the copy of a vdisk, 0 for no limit.
    :raises DiskPlacerError: cinder.conf has no such backend, or lacks options
        that it needs.
    """
    locks.make_directory(config.state_path)
    sections = backend_sections.read(config)
    for name, options in sections.items():
        backend = base.load(options)
        usable = base.usable_disks(
            backend.disks(wait=True), options.vdisk_media
        )
        if any(disk.uuid == uuid for disk in usable):
            return drainer.Drainer(
                survey.Surveyor(
                    cinder_context.get_admin_context(),
                    VDiskOperations(
                        backend,
                        placement_client.PlacementClient.from_conf(config),
                    ),
                    name,
                    options.vdisk_media,
                    options.vdisk_default_mapping,
                    backend_sections.hosts(config, sections),
                    guests.Guests(libvirt_uri, rate),
                ),
                progress,
            )
    raise exception.DiskError(
        f'no backend of cinder.conf has a healthy disk {uuid}; the backends '
        'are ' + ', '.join(sections)
    )
