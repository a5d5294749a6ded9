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

"""Finds volumes and their backends by cinder.conf, for moves of legs."""

import dataclasses
from typing import Any

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import objects
from oslo_config import cfg

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception
from nova_diskplacer.placement import client as placement_client


@dataclasses.dataclass(frozen=True)
class Backend:
    """A backend of this host that stripes.

    :param name: ``host@section``.
    :param storage: what the operations change.
    """

    context: Any
    name: str
    media: str
    operations: Operations
    storage: striping.StripingBackend


def from_conf(config: cfg.ConfigOpts) -> list[Backend]:
    """Return the backends of this host that stripe.

    :raises DiskPlacerError: cinder.conf has no backend, or lacks options that
        they need.
    """
    locks.make_directory(config.state_path)
    context = cinder_context.get_admin_context()
    placement = placement_client.PlacementClient.from_conf(config)
    striping_backends = []
    for name, options in backend_sections.read(config).items():
        storage = base.load(options)
        if isinstance(storage, striping.StripingBackend):
            operations = Operations(storage, placement)
            striping_backends.append(
                Backend(
                    context, name, options.vdisk_media, operations, storage
                )
            )
    return striping_backends


def find(config: cfg.ConfigOpts, volume_id: str) -> tuple[Backend, Volume]:
    """Return a volume and its backend, which stripes.

    :raises DiskError: Cinder has no such volume, or none of the backends has
        it.
    :raises DiskPlacerError: as :func:`from_conf`.
    """
    among = from_conf(config)
    context = cinder_context.get_admin_context()
    try:
        volume: Volume = objects.Volume.get_by_id(context, volume_id)
    except cinder_exc.VolumeNotFound as error:
        raise exception.DiskError(
            f'Cinder has no volume {volume_id}'
        ) from error
    for backend in among:
        if (volume.host or '').partition('#')[0] == backend.name:
            return backend, volume
    raise exception.DiskError(
        f'volume {volume_id} belongs to {volume.host}; the backends of this '
        'host with vdisk_backend=lvm are '
        + (', '.join(backend.name for backend in among) or 'none')
    )
