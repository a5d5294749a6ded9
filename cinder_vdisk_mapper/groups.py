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

"""Generic groups, and group snapshots of one moment.

Cinder does all that groups need by itself, except for what a group type with
``consistent_group_snapshot_enabled`` promises: that all snapshots of a group
are of the same moment.
"""

import contextlib
import os
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any
from typing import NamedTuple
from typing import NoReturn

from cinder import objects
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import names
from cinder_vdisk_mapper import quiesce
from cinder_vdisk_mapper import room
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

CONF = cfg.CONF

#: below state_path of cinder.conf
_DIRECTORY = 'vdisk-suspended'

_DETACHED = 'detached'


class Copy(NamedTuple):
    """A snapshot to make of the vdisk ``name``."""

    disk: str
    name: str
    snapshot: str
    snapshot_id: str


class Groups(core.Core):
    """Groups by Cinder's own means, and consistent group snapshots."""

    def do_setup(self, context: Any) -> None:
        """Resume servers that a process that was killed left suspended."""
        super().do_setup(context)
        self._quiescer.recover()

    def get_volume_stats(self, refresh: bool = False) -> dict[str, Any]:
        """Look after servers that could not be resumed, each time."""
        if refresh:
            self._quiescer.recover()
        stats: dict[str, Any] = super().get_volume_stats(refresh)
        return stats

    def create_group(self, context: Any, group: Any) -> NoReturn:
        """Have Cinder do it: a group is but its volumes."""
        raise NotImplementedError

    def delete_group(
        self, context: Any, group: Any, volumes: list[Any]
    ) -> NoReturn:
        """Have Cinder delete the volumes."""
        raise NotImplementedError

    def update_group(
        self,
        context: Any,
        group: Any,
        add_volumes: list[Any] | None = None,
        remove_volumes: list[Any] | None = None,
    ) -> NoReturn:
        """Have Cinder do it: a group is but its volumes."""
        raise NotImplementedError

    def create_group_from_src(
        self,
        context: Any,
        group: Any,
        volumes: list[Any],
        group_snapshot: Any = None,
        snapshots: list[Any] | None = None,
        source_group: Any = None,
        source_vols: list[Any] | None = None,
    ) -> NoReturn:
        """Have Cinder copy snapshot by snapshot, or volume by volume.

        :raises VolumeDriverException: volumes that are in use cannot be
            copied at one moment, as the group's type asks.
        """
        used = [one.id for one in source_vols or () if _servers_of(one)]
        if used and volume_utils.is_group_a_cg_snapshot_type(group):
            with errors.explained():
                raise exception.DiskError(
                    f'group {group.id} is to be consistent and its sources '
                    f'{used} are in use: make a group snapshot, and the '
                    'group from that'
                )
        raise NotImplementedError

    def create_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Make snapshots of one moment: all of them or none.

        Servers that use the volumes are suspended meanwhile. Groups that
        need not be consistent are left to Cinder.
        """
        if not volume_utils.is_group_a_cg_snapshot_type(group_snapshot):
            raise NotImplementedError
        with errors.explained(), contextlib.ExitStack() as locks:
            # none of them is bound or bound to a server meanwhile
            for volume_id in sorted(one.volume_id for one in snapshots):
                locks.enter_context(room.lock(f'volume-{volume_id}'))
            volumes = {
                one.id: objects.Volume.get_by_id(context, one.volume_id)
                for one in snapshots
            }
            servers = {
                server
                for volume in volumes.values()
                if volume.provider_location
                for server in _servers_of(volume)
            }
            copies = [
                Copy(
                    volume.provider_location,
                    names.volume(volume),
                    names.snapshot(one),
                    one.id,
                )
                for one in snapshots
                if (volume := volumes[one.id]).provider_location
            ]
            for copy in copies:
                self.require(copy.disk)
            snapshot_together(
                self.binder, copies, lambda: self._quiescer.quiet(servers)
            )
        places = {copy.snapshot_id: copy.disk for copy in copies}
        return {'status': 'available'}, [
            {
                'id': one.id,
                'status': 'available',
                'provider_location': places.get(one.id),
            }
            for one in snapshots
        ]

    def delete_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> NoReturn:
        """Have Cinder delete snapshot by snapshot."""
        raise NotImplementedError

    @property
    def _quiescer(self) -> quiesce.Quiescer:
        return quiesce.Quiescer(
            self.configuration.vdisk_libvirt_uri,
            os.path.join(CONF.state_path, _DIRECTORY),
        )


def snapshot_together(
    binder: binding.Binder,
    copies: Sequence[Copy],
    quiet: Callable[[], AbstractContextManager[None]],
) -> None:
    """Make all snapshots while ``quiet`` lasts, or none.

    :raises BindingError: a disk has no room that nobody claims.
    :raises PlacementError: Placement cannot be asked or told.
    :raises DiskError: a disk or a server refuses.
    """
    disks = sorted({copy.disk for copy in copies})
    with contextlib.ExitStack() as locks:
        for disk in disks:
            locks.enter_context(room.lock(f'disk-{disk}'))
        refusals = {disk: _check_room(binder, disk, copies) for disk in disks}
        present = {
            (disk, vdisk.name)
            for disk in disks
            for vdisk in binder.backend.disk(disk).vdisks
        }
        try:
            with quiet():
                for copy in copies:
                    binder.backend.snapshot(*copy)
            for disk in disks:
                if not binder.reserve(disk):
                    raise refusals[disk]
        except BaseException:
            for copy in copies:
                if (copy.disk, copy.snapshot) not in present:
                    _undo(binder, copy)
            raise


def _check_room(
    binder: binding.Binder, disk: str, copies: Sequence[Copy]
) -> room.BindingError:
    """See that a disk has the room for its snapshots.

    :returns: what to raise where it turns out to lack it.
    :raises BindingError: it lacks the room.
    """
    held = {vdisk.name for vdisk in binder.backend.disk(disk).vdisks}
    wanted = 0
    for copy in copies:
        if copy.disk == disk and copy.snapshot not in held:
            wanted += binder.look(disk, copy.name)[1].size_gb
    free = binder.room_gb(binder.backend.disk(disk))
    refusal = room.BindingError(
        f'disk {disk} has no room for the group snapshot, which takes '
        f'{wanted} GiB there: {max(free, 0)} GiB of it are neither claimed '
        'nor taken'
    )
    if free < wanted:
        raise refusal
    return refusal


def _undo(binder: binding.Binder, copy: Copy) -> None:
    try:
        # the disk's lock, which binder.delete takes, is held
        binder.backend.delete(copy.disk, copy.snapshot)
        binder.sync(copy.disk)
    except exception.DiskPlacerError as error:
        # deleting the snapshot, which is in error now, tries again
        LOG.error('Snapshot %s is left: %s', copy.snapshot_id, error)


def _servers_of(volume: Any) -> set[str]:
    return {
        one.instance_uuid
        for one in volume.volume_attachment
        if one.instance_uuid and one.attach_status != _DETACHED
    }
