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

"""One attempt to have the data of a server follow it to this host.

The vdisk of the other host must be attached here, that host must know that the
server has left it for good, and this process must see who uses the vdisk.
:mod:`settle_move` has the steps that come then.
"""

from oslo_log import log as logging

from cinder_vdisk_mapper.moves import vdisk_steps
from cinder_vdisk_mapper.server_moves import at_rest
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import store
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote as remote_vdisks

LOG = logging.getLogger(__name__)


def settle(move: settle_move.SettleMove) -> None:
    """Move the data, or go on with a move that was interrupted.

    :raises Stopped: another process is to go on.
    :raises Waits: the data is not to be moved now.
    :raises DiskPlacerError: it is not moved; the other vdisk is the volume,
        or a repetition finishes the move.
    """
    if move.has_arrived():
        # whoever uses the volume by now, the other vdisk is not it
        with move.locked():
            move.source.condemn()
        move.source.delete()
        return
    _reconnect(move)
    _check_sight(move)
    try:
        _leave(move)
        vdisk_steps.run(move)
    except (settle_move.Stopped, settle_move.Busy):
        raise
    except exception.DiskPlacerError:
        _try_abandon(move)
        raise


def _reconnect(move: settle_move.SettleMove) -> None:
    """Attach the remote vdisk again, whose session may be gone.

    It is if this host was booted while the other one was away. While that
    still is, the next attempt does.
    """
    recorded = store.read(move.volume_id)
    if recorded is None or not recorded.is_undecided or _is_connected(move):
        return
    try:
        move.destination.go_on(store.fresh(move.volume_id), recorded)
    except exception.DiskPlacerError as error:
        raise remote_vdisks.Away(str(error)) from None
    LOG.info('%s is attached to this host again', move.name)


def _is_connected(move: settle_move.SettleMove) -> bool:
    try:
        remote_vdisks.size_bytes(move.device)
    except remote_vdisks.Away:
        return False
    return True


def _leave(move: settle_move.SettleMove) -> None:
    """Ask the source to record that the server has left it for good.

    Nova has detached it there before it has attached it here, as in a
    cold migration, which may be taken back until it is confirmed.

    :raises Waits: the server has not, or that host does not answer.
    """
    recorded = store.read(move.volume_id)
    if recorded is None or recorded.phase != record.ATTACHED:
        return
    at_rest.check(move.volume_id, recorded)
    volume = store.fresh(move.volume_id)
    other_host.go_on(volume, recorded.source, recorded.source_host)
    if move.phase() != record.LEFT:
        raise at_rest.Waits(f'{recorded.source} does not answer')


def _check_sight(move: settle_move.SettleMove) -> None:
    """Check that this process sees the processes that servers are.

    :raises DiskError: the server runs, and nobody seems to use its vdisk.
    """
    if move.guest() is None:
        return
    device = links.remote_device(move.backend.disk_root, move.name)
    paths = [device] if device else []
    if not any(map(remote_vdisks.in_use, [*paths, move.target.path])):
        raise exception.DiskError(
            'its server runs, but no process seems to use it: settle in '
            "the PID namespace of the host, such as by podman's --pid host"
        )


def _try_abandon(move: settle_move.SettleMove) -> None:
    """End a copy that is not decided; the next attempt does if this fails."""
    try:
        if not move.has_arrived():
            vdisk_steps.abandon(move)
    except exception.DiskPlacerError as error:
        LOG.debug('The copy of %s is not ended: %s', move.name, error)
