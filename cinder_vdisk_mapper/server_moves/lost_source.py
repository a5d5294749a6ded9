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

"""Ends the move of a volume whose data is lost with the source.

An operator says so twice: the service of the source is removed, and the volume
is named. That a host does not answer says nothing.
"""

import collections.abc

from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import exception
from nova_diskplacer.disks import links

LOG = logging.getLogger(__name__)


def discard(
    destinations: collections.abc.Mapping[str, Destination], volume_id: str
) -> None:
    """Remove all that is here of a volume whose data is lost; repeatable.

    Its session ends first, whoever has it open: a QEMU that waits for the lost
    host cannot be killed. Then the volume is one of this host without a vdisk,
    with the status ``error``: it can be deleted, and not be attached.

    :param destinations: the backends of this host, by their Cinder hosts.
    :raises DiskPlacerError: the data is not lost, the volume is attached, or
        something of it cannot be removed.
    """
    recorded = store.read(volume_id)
    if recorded is None or recorded.to not in destinations:
        where = f', but to {recorded.to}: repeat it there' if recorded else ''
        raise exception.DiskPlacerError(
            f'no data of volume {volume_id} moves to this host{where}'
        )
    destination = destinations[recorded.to]
    with destination.locked(volume_id):
        volume, recorded = store.fresh(volume_id), store.read(volume_id)
        if recorded is None:
            return
        name = naming.volume(volume)
        _check_lost(destination, volume, recorded)
        remote.log_out(destination.backend, name, is_lost=True)
        if attachments(volume):
            raise exception.DiskPlacerError(
                f'volume {volume_id} is still attached. Its server '
                f'{recorded.server} gets errors of its disk now, and can be '
                'deleted. Delete it, set the volume to detached and in error, '
                'and repeat this'
            )
        destination.undo(name)
        destination.save_lost(volume)
        store.forget(volume_id, recorded)
    LOG.warning(
        'Volume %s, whose data is lost with %s, is one of %s without a vdisk',
        volume_id,
        recorded.source,
        recorded.to,
    )


def _check_lost(
    destination: Destination, volume: Volume, recorded: Record
) -> None:
    """Check that an operator has given up the source, which has the data.

    :raises DiskPlacerError: it is not so.
    """
    backend = destination.backend
    linked = backend.linked_disk(naming.volume(volume))
    if store.holder(volume) == recorded.to or linked not in (
        None,
        links.REMOTE,
    ):
        raise exception.DiskPlacerError(
            f'the data of volume {volume.id} is on this host'
        )
    if not other_host.is_removed(recorded.source):
        raise exception.DiskPlacerError(
            f'the data of volume {volume.id} is on {recorded.source}. If that '
            'is lost for good, remove its service first: cinder-manage '
            f'service remove cinder-volume {recorded.source}'
        )
