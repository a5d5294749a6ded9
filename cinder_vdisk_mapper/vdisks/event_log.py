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

"""Log lines about vdisks that are bound, moved and deleted: one for each."""

import contextlib

from oslo_log import log as logging

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api.types import Volume
from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import VDisk

LOG = logging.getLogger(__name__)


def find(backend: base.Backend, location: Location, name: str) -> VDisk | None:
    """Return a vdisk, or a piece of it, to be logged; None if it is away."""
    with contextlib.suppress(exception.DiskPlacerError):
        for disk in location.disks:
            if vdisk := backend.disk(disk).find(name):
                return vdisk
    return None


def log_bound(
    volume: Volume, server_id: str | None, location: Location
) -> None:
    """Log that a volume has a vdisk now."""
    LOG.info(
        'Volume %s of %s GiB is bound to disk %s for %s',
        volume.id,
        volume.size,
        location,
        _server(server_id),
    )


def log_moved(
    volume: Volume,
    vdisk: VDisk | None,
    size_gb: int,
    source: str,
    target: str,
) -> None:
    """Log that the vdisk of a volume, or so many GiB of it, has moved."""
    LOG.info(
        '%s GiB of volume %s have moved from disk %s to disk %s for %s',
        size_gb,
        volume.id,
        source,
        target,
        _server(vdisk.server_id if vdisk else None),
    )


def log_deleted(volume: Volume, vdisk: VDisk, location: Location) -> None:
    """Log that the vdisk of a volume is deleted."""
    LOG.info(
        'Volume %s of %s GiB is deleted from disk %s, where it was for %s',
        volume.id,
        volume.size,
        location,
        _server(vdisk.server_id),
    )


def _server(server_id: str | None) -> str:
    return f'server {server_id}' if server_id else 'no server'
