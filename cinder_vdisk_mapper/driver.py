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

"""VDiskMapperDriver: volumes on exactly chosen local disks.

Runs in the cinder-volume of each compute node. A volume takes no space until
it is attached for the first time or filled; then it is bound to a disk, which
it never leaves by itself. ``provider_location`` is the UUID of that disk; a
striped volume is bound to several, see ``Location``. Where a move of
a vdisk was interrupted, ``vdisks.linking`` tells on which disk the volume is.
"""

import contextlib
import functools
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Concatenate
from typing import ParamSpec
from typing import TypeVar

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import interface
from cinder.image import image_utils
from cinder.volume import driver
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import export
from cinder_vdisk_mapper.attach.connections import Connections
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.backend import striping
from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api import internals as cinder_internals
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Snapshot
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.features import encryption
from cinder_vdisk_mapper.features import groups
from cinder_vdisk_mapper.features import migration
from cinder_vdisk_mapper.features import qemu_img
from cinder_vdisk_mapper.features import stats
from cinder_vdisk_mapper.features.manage_existing import ManagedVDisks
from cinder_vdisk_mapper.features.migration import Migration
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.server_moves.move_export import MoveExport
from cinder_vdisk_mapper.server_moves.server_moves import ServerMoves
from cinder_vdisk_mapper.server_moves.source import Source
from cinder_vdisk_mapper.vdisks import event_log
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import internals
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.host import log_once
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

CONF = cfg.CONF
conf.register_opts(CONF)

_Arguments = ParamSpec('_Arguments')
_Result = TypeVar('_Result')


def _forward(
    attribute: str,
    method: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method of the driver that calls one of a collaborator.

    It raises VolumeDriverException in place of the project's errors.

    :param attribute: of the driver, which holds the collaborator.
    """

    @functools.wraps(method)
    @errors.as_driver_error()
    def forward(
        self: Any, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        return method(getattr(self, attribute), *args, **kwargs)

    return forward


@interface.volumedriver
class VDiskMapperDriver(driver.VolumeDriver):
    """Maps volumes to the local disks that their server has claimed."""

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'nova-diskplacer'

    backend: base.Backend

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(conf.OPTS)
        self._unclaimed_gb: dict[str, int] = {}
        self._stats_log = log_once.ChangeLogger(LOG)

    @staticmethod
    def get_driver_options() -> list[Any]:
        """Return the options of the driver."""
        return conf.OPTS

    def do_setup(self, context: Any) -> None:
        """Load the backend; Placement is asked when it is first needed."""
        internals.check(cinder_internals.VOLUME, cinder_internals.RELEASE)
        self.backend = base.load(self.configuration)

    def check_for_setup_error(self) -> None:
        """Refuse to start without a lock path; disks may come later.

        The leftovers of killed processes are removed: locks, and unfinished
        changes of healthy disks.
        """
        locks.sweep()
        disks = self._disks()
        for disk in disks:
            try:
                self.backend.sweep(disk.uuid)
            except exception.DiskError as error:
                # the next change of the disk tries again
                LOG.warning('Disk %s is not swept: %s', disk.uuid, error)
        if isinstance(self.backend, striping.StripingBackend):
            try:
                self.backend.resume_stripes()
            except exception.DiskError as error:
                LOG.error('Striped volumes may be suspended: %s', error)
        if not disks:
            LOG.warning(
                'No healthy disk (%s) under vdisk_disk_root=%s',
                self.configuration.vdisk_media,
                self.configuration.vdisk_disk_root,
            )

    # Collaborators, made when they are first used

    @functools.cached_property
    def placement(self) -> placement_client.PlacementClient:
        """Client of Placement.

        :raises DiskPlacerError: the group [placement] is wrong.
        """
        return placement_client.PlacementClient.from_conf(CONF)

    @functools.cached_property
    def operations(self) -> Operations:
        """Changes vdisks and reserves them."""
        return Operations(self.backend, self.placement)

    @functools.cached_property
    def _connections(self) -> Connections:
        connections = Connections(
            self.host, self.configuration, self.operations, self.target_mapping
        )
        # cinderlib has no database that two hosts share
        if 'cinderlib' not in sys.modules:
            connections.moves = self._server_moves(connections)
        return connections

    def _server_moves(self, connections: Connections) -> ServerMoves:
        host = volume_utils.extract_host(self.host, 'backend')
        return ServerMoves(
            Source(
                host,
                MoveExport(
                    connections.names,
                    self.operations,
                    lambda: connections.exporter,
                ),
                self.configuration.safe_get('target_helper') or '',
            ),
            Destination(host, self.operations, self.configuration.vdisk_media),
        )

    @functools.cached_property
    def _managed(self) -> ManagedVDisks:
        return ManagedVDisks(
            self.operations,
            self.configuration.vdisk_media,
            self._connections.bind,
        )

    @functools.cached_property
    def _migration(self) -> Migration:
        return Migration(
            self.operations,
            self._location,
            self.configuration.vdisk_default_mapping,
            self._connections.end_copy,
        )

    @property
    def _location(self) -> migration.BackendDisks:
        return migration.location_of(self.host, self.configuration)

    # Volumes

    def create_volume(self, volume: Volume) -> ModelUpdate:
        """Create a volume that takes no space yet."""
        encryption.check_provider(volume)
        self._check_mapping(volume)
        if volume.provider_location or volume.provider_id:
            # Cinder copies both to the target of a migration
            return naming.created() | naming.bound_to(None)
        # without them: Cinder saves this once more when it has written an
        # image to the volume, which is bound by then
        return naming.created()

    @errors.as_driver_error()
    def delete_volume(self, volume: Volume) -> None:
        """Delete a volume and the leftovers of killed attempts."""
        self._check_moves_ended(volume)
        if volume.status == 'error_managing_deleting':
            # Cinder does not own a vdisk that it failed to manage
            self._managed.release_vdisk(volume)
        else:
            name = naming.volume(volume)
            location = linking.where(self.backend, volume)
            vdisk = event_log.find(self.backend, location, name)
            self.operations.delete_everywhere(location, name)
            if location and vdisk:
                event_log.log_deleted(volume, vdisk, location)

    @errors.as_driver_error()
    def extend_volume(self, volume: Volume, new_size: int) -> None:
        """Extend a volume to ``new_size`` GiB; it must not be attached.

        An unbound volume takes no space, but must fit a disk.
        """
        self._check_moves_ended(volume)
        location = linking.where(self.backend, volume)
        if location:
            self.operations.at(location, naming.volume(volume)).extend(
                new_size
            )
            return
        largest = max(
            (disk.total_gb for disk in self._disks()), default=new_size
        )
        if new_size > largest:
            raise errors.BindingError(
                f'no disk can hold a volume of {new_size} GiB: the largest '
                f'has {largest} GiB',
                f'a volume cannot be extended to {new_size} GiB here',
            )

    @errors.as_driver_error()
    def create_cloned_volume(
        self, volume: Volume, src_vref: Volume
    ) -> ModelUpdate:
        """Make a volume with the content of another, on its disk."""
        moves = self._connections.moves
        if isinstance(moves, ServerMoves):
            moves.check_whole(src_vref)
        location = linking.where(self.backend, src_vref)
        return self._clone(location, naming.volume(src_vref), volume)

    @errors.as_driver_error()
    def create_volume_from_snapshot(
        self, volume: Volume, snapshot: Snapshot
    ) -> ModelUpdate:
        """Make a volume with the content of a snapshot, on its disk."""
        location = _location_of_snapshot(snapshot, snapshot.volume)
        return self._clone(location, naming.snapshot(snapshot), volume)

    def _clone(
        self, location: Location, source: str, volume: Volume
    ) -> ModelUpdate:
        """Copy a vdisk; a copy of an unbound volume is unbound too."""
        self._check_mapping(volume)
        if not location:
            return naming.created()
        self.backend.check_location(location)
        self.operations.at(location, source).clone(
            naming.volume(volume), volume.id, volume.size
        )
        event_log.log_bound(volume, None, location)
        return naming.created() | naming.bound_to(location)

    # Snapshots, on the disk of their volume

    @errors.as_driver_error()
    def create_snapshot(self, snapshot: Snapshot) -> ModelUpdate:
        """Make a snapshot of a volume, which may be attached."""
        volume = snapshot.volume
        self._check_moves_ended(volume)
        location = linking.where(self.backend, volume)
        if location:
            self.backend.check_location(location)
            self.operations.at(location, naming.volume(volume)).snapshot(
                naming.snapshot(snapshot), snapshot.id
            )
        return naming.snapshot_at(location)

    @errors.as_driver_error()
    def delete_snapshot(self, snapshot: Snapshot) -> None:
        """Delete a snapshot and the leftovers of killed attempts."""
        self.operations.delete_everywhere(
            naming.location(snapshot), naming.snapshot(snapshot)
        )

    @errors.as_driver_error()
    def revert_to_snapshot(
        self, context: Any, volume: Volume, snapshot: Snapshot
    ) -> None:
        """Give a volume that is not attached the content of a snapshot.

        It is cleared if it was unbound when the snapshot was made.
        """
        location = linking.where(self.backend, volume)
        if attachments(volume):
            raise errors.BindingError(
                f'volume {volume.id} is attached and cannot be reverted',
                'a volume that is attached cannot be reverted',
            )
        if not location:
            return
        self.backend.check_location(location)
        made_at = _location_of_snapshot(snapshot, volume)
        self.operations.at(location, naming.volume(volume)).revert(
            naming.snapshot(snapshot) if made_at else None
        )

    def snapshot_revert_use_temp_snapshot(self) -> bool:
        """Make Cinder take no snapshot before it reverts.

        An interrupted revert can be repeated; another snapshot would need
        more space.
        """
        return False

    def backup_use_temp_snapshot(self) -> bool:
        """Make Cinder back up clones: a snapshot may have no vdisk."""
        if self.configuration.safe_get('backup_use_temp_snapshot'):
            LOG.warning(
                'backup_use_temp_snapshot=True is ignored: volumes in use '
                'and snapshots are backed up by a temporary clone'
            )
        return False

    # Connections

    def validate_connector(self, connector: dict[str, Any]) -> None:
        """Check that a connector names its host.

        :meth:`create_export` checks that the volume may be attached there.
        """
        if not connector.get('host'):
            raise cinder_exc.InvalidConnectorException(missing='host')

    create_export = _forward('_connections', Connections.create_export)
    ensure_export = _forward('_connections', Connections.ensure_export)
    remove_export = _forward('_connections', Connections.remove_export)
    initialize_connection = _forward(
        '_connections', Connections.initialize_connection
    )

    @errors.as_driver_error()
    def terminate_connection(  # type: ignore[override]
        self, volume: Volume, connector: dict[str, Any] | None, **kwargs: Any
    ) -> bool | None:
        """Revoke the access of a host; returns whether the export stays."""
        return self._connections.terminate_connection(volume, connector)

    local_path = _forward('_connections', Connections.local_path)

    def _attach_volume(
        self,
        context: Any,
        volume: Volume,
        properties: dict[str, Any],
        remote: bool = False,
    ) -> Any:
        """Attach a volume to this host, for Cinder itself.

        :raises RekeyNotSupported: it is a clone whose key Cinder is about to
            change, which it does by iSCSI and Fibre Channel only: an unbound
            clone stays unbound.
        :raises VolumeDriverException: the volume cannot be attached now.
        """
        if volume.status == 'creating' and volume.encryption_key_id:
            raise cinder_exc.RekeyNotSupported
        if not remote:
            # Cinder does this once more, and goes on if it is refused
            self.create_export(context, volume, properties)
        return super()._attach_volume(context, volume, properties, remote)

    # Images

    @errors.as_driver_error()
    def copy_image_to_volume(
        self,
        context: Any,
        volume: Volume,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Bind the volume by its policy and write an image to it.

        :raises VolumeDriverException: no disk may hold the volume.
        """
        fetched = self._fetched(context, volume, image_service, image_id)
        with fetched as (image, volume, device):
            # -S 0: do not deallocate zeros
            sparse = ('-S', '0') if disable_sparse else ()
            qemu_img.convert(image, device, device, *sparse, '-O', 'raw')
        # zeros were written by deallocating their blocks
        pieces = naming.location(volume).pieces_gb(volume.size)
        for disk, size_gb in pieces.items():
            self.backend.extend(disk, naming.volume(volume), size_gb)

    def copy_image_to_encrypted_volume(
        self,
        context: Any,
        volume: Volume,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Bind a volume by its policy and write an image to it by LUKS.

        :raises ImageTooBig: the volume cannot hold the image and the header.
        """
        fetched = self._fetched(context, volume, image_service, image_id)
        with fetched as (image, volume, device):
            encryption.write_image(
                context, volume, image_id, image, device, self.host
            )

    @contextlib.contextmanager
    def _fetched(
        self, context: Any, volume: Volume, image_service: Any, image_id: str
    ) -> Iterator[tuple[str, Volume, str]]:
        """Download an image and attach the volume that it is for.

        Yields the path of the raw image, the volume, and its device's path.
        """
        # Cinder removes files with this suffix when it starts
        with image_utils.temporary_file(suffix=self.host) as path:
            image_utils.fetch_to_raw(
                context,
                image_service,
                image_id,
                path,
                self.configuration.volume_dd_blocksize,
                size=volume.size,
            )
            properties = volume_utils.brick_get_connector_properties()
            attach_info, volume = self._attach_volume(
                context, volume, properties
            )
            try:
                yield path, volume, attach_info['device']['path']
            finally:
                self._detach_volume(
                    context, attach_info, volume, properties, force=True
                )

    # Groups. All methods are implemented, because Cinder calls those of the
    # legacy consistency groups in place of a missing one.

    def create_group(self, context: Any, group: Any) -> ModelUpdate:
        """Do nothing: there are no volumes yet."""
        return {'status': 'available'}

    def update_group(
        self,
        context: Any,
        group: Any,
        add_volumes: list[Volume] | None = None,
        remove_volumes: list[Volume] | None = None,
    ) -> tuple[None, None, None]:
        """Do nothing: Cinder stores the members of a group."""
        return None, None, None

    def delete_group(
        self, context: Any, group: Any, volumes: Sequence[Volume]
    ) -> tuple[ModelUpdate, groups.Updates]:
        """Delete the volumes of a group."""
        return groups.delete_all(volumes, self.delete_volume)

    @errors.as_driver_error()
    def create_group_from_src(
        self,
        context: Any,
        group: Any,
        volumes: Sequence[Volume],
        group_snapshot: Any = None,
        snapshots: Sequence[Snapshot] | None = None,
        source_group: Any = None,
        source_vols: Sequence[Volume] | None = None,
    ) -> tuple[None, groups.Updates]:
        """Copy snapshot by snapshot, or volume by volume.

        :raises VolumeDriverException: the disk of a source is missing or
            lacks the space for the copy, or the group's type is consistent
            and one of the volumes is attached.
        """
        if snapshots:
            copies = map(self.create_volume_from_snapshot, volumes, snapshots)
        else:
            sources = source_vols or ()
            if volume_utils.is_group_a_cg_snapshot_type(group):
                groups.check_detached(sources)
            copies = map(self.create_cloned_volume, volumes, sources)
        return None, [
            {'id': volume.id, **update}
            for volume, update in zip(volumes, copies, strict=True)
        ]

    @errors.as_driver_error()
    def create_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Snapshot]
    ) -> tuple[ModelUpdate, groups.Updates]:
        """Make snapshots of one moment: all of them or none.

        Cinder makes those of groups that need not be consistent.

        :raises VolumeDriverException: one of the volumes is attached, a disk
            lacks the space, or the operation fails.
        """
        if not volume_utils.is_group_a_cg_snapshot_type(group_snapshot):
            raise NotImplementedError
        for snapshot in snapshots:
            self._check_moves_ended(snapshot.volume)
        updates = groups.create_snapshots(self.operations, context, snapshots)
        return {'status': 'available'}, updates

    def delete_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Snapshot]
    ) -> tuple[ModelUpdate, groups.Updates]:
        """Delete the snapshots of a group snapshot."""
        return groups.delete_all(snapshots, self.delete_snapshot)

    # Managed vdisks

    manage_existing_get_size = _forward(
        '_managed', ManagedVDisks.manage_existing_get_size
    )
    manage_existing = _forward('_managed', ManagedVDisks.manage_existing)

    @errors.as_driver_error()
    def unmanage(self, volume: Volume) -> None:
        """Unmanage a volume, which is bound first if it is not."""
        self._check_moves_ended(volume)
        self._managed.unmanage(volume)

    get_manageable_volumes = _forward(
        '_managed', ManagedVDisks.get_manageable_volumes
    )
    manage_existing_snapshot_get_size = _forward(
        '_managed', ManagedVDisks.manage_existing_snapshot_get_size
    )
    manage_existing_snapshot = _forward(
        '_managed', ManagedVDisks.manage_existing_snapshot
    )
    unmanage_snapshot = _forward('_managed', ManagedVDisks.unmanage_snapshot)
    get_manageable_snapshots = _forward(
        '_managed', ManagedVDisks.get_manageable_snapshots
    )

    # Migrations

    @errors.as_driver_error()
    def migrate_volume(
        self, context: Any, volume: Volume, host: dict[str, Any]
    ) -> tuple[bool, ModelUpdate | None]:
        """Move a volume that is not attached to another backend."""
        self._check_moves_ended(volume)
        return self._migration.migrate_volume(context, volume, host)

    update_migrated_volume = _forward(
        '_migration', Migration.update_migrated_volume
    )

    @errors.as_driver_error()
    def update_provider_info(
        self, volumes: Sequence[Volume], snapshots: Sequence[Snapshot]
    ) -> tuple[list[ModelUpdate], list[ModelUpdate]]:
        """Go on with moves of vdisks and servers, and link volumes, at start.

        :returns: as :meth:`Migration.update_provider_info`.
        """
        updates = self._migration.update_provider_info(volumes, snapshots)
        if isinstance(self._connections.moves, ServerMoves):
            self._connections.moves.start()
        self._connections.restore_others(volumes)
        return updates

    def retype(
        self, context: Any, volume: Volume, new_type: Any, diff: Any, host: Any
    ) -> tuple[bool, None]:
        """Change a volume's type in place.

        The scheduler has checked that this backend suits the new type, and
        the hypervisor limits I/O. Only encryption changes the content.

        :raises InvalidVolumeType: the mapping of the new type is unknown.
        """
        bind_request.mapping_of(
            new_type, self.configuration.vdisk_default_mapping
        )
        return not diff.get('encryption'), None

    def _update_volume_stats(self) -> None:
        """Set the statistics of the backend, which has one pool."""
        disks = self._disks()
        unbound = self.db.volume_get_all_by_host(
            cinder_context.get_admin_context(),
            self.host,
            filters={'provider_location': None},
        )
        capacity, capabilities = stats.report(
            disks, self._read_unclaimed(disks), unbound
        )
        capabilities |= {
            'vdisk_media': self.configuration.vdisk_media,
            'location_info': str(self._location),
            constants.CAN_MOVE: export.can_move(self.configuration),
        }
        name = self.configuration.safe_get('volume_backend_name')
        pool = {
            'pool_name': name,
            'reserved_percentage': self.configuration.reserved_percentage,
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function(),
            **capacity,
            **capabilities,
        }
        self._stats = {
            'volume_backend_name': name,
            'vendor_name': 'nova-diskplacer',
            'driver_version': self.VERSION,
            'storage_protocol': self._connections.protocol,
            **capabilities,
            'pools': [pool],
        }

    def _read_unclaimed(self, disks: list[discover.Disk]) -> dict[str, int]:
        """Return the unclaimed GiB of each disk in Placement.

        If Placement does not answer, these are the last known figures, or none
        if it never answered: no volume can be bound then.
        """
        try:
            for disk in disks:
                if provider := self.placement.provider(disk.uuid):
                    root = provider.root
                    self._unclaimed_gb = self.placement.free_gb(root)
                    break
            self._stats_log.clear('claims')
        except exception.DiskPlacerError as error:
            self._stats_log.log(
                'claims', 'The claims of servers are unknown: %s', error
            )
        return self._unclaimed_gb

    def _disks(self) -> list[discover.Disk]:
        return base.usable_disks(
            self.backend.disks(), self.configuration.vdisk_media
        )

    def _check_moves_ended(self, volume: Volume) -> None:
        """Check that a volume may change: its server moves to no other host.

        :raises BindingError: it does.
        """
        moves = self._connections.moves
        if isinstance(moves, ServerMoves):
            moves.check_ended(volume)

    def _check_mapping(self, volume: Volume) -> None:
        bind_request.mapping_of(
            volume.volume_type, self.configuration.vdisk_default_mapping
        )


def _location_of_snapshot(snapshot: Snapshot, volume: Volume) -> Location:
    """Return where a snapshot is, empty if its volume was unbound.

    :raises BindingError: a killed process may have left it half made.
    """
    location = naming.location(snapshot)
    if (
        not location
        and volume.provider_location
        and not naming.is_of_unbound(snapshot)
    ):
        raise errors.BindingError(
            f'snapshot {snapshot.id} has no disk, and its volume {volume.id} '
            'has one: it was not completed, or is of a former release and of '
            'the time before the volume was attached',
            'the content of the snapshot is not known: delete it',
        )
    return location
