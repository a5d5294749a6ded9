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
it is attached for the first time, or its bytes are needed; then it is bound
to a disk, for good. ``provider_location`` is the UUID of that disk.
"""

import collections
import contextlib
import functools
import socket
from collections.abc import Iterator
from typing import Any

from cinder import exception as cinder_exc
from cinder import interface
from cinder import objects
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver as stevedore_driver

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import servers
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import placement
from nova_diskplacer.disks import discover

LOG = logging.getLogger(__name__)

CONF = cfg.CONF
CONF.register_opts(conf.OPTS, group=configuration.SHARED_CONF_GROUP)

BACKENDS = 'cinder_vdisk_mapper.backend'

# Extra spec of a volume type.
MAPPING = 'vdisk:mapping'


@interface.volumedriver
class VDiskMapperDriver(driver.VolumeDriver):
    """Maps volumes to the local disks that their server has claimed."""

    VERSION = '1.0.0'
    CI_WIKI_NAME = 'nova-diskplacer'

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(conf.OPTS)
        self._binder: binding.Binder | None = None

    @staticmethod
    def get_driver_options() -> list[Any]:
        """Return the options of the driver."""
        return conf.OPTS

    def do_setup(self, context: Any) -> None:
        """Load the backend; Placement is not asked until it is needed."""
        root = self.configuration.vdisk_disk_root
        plugin = stevedore_driver.DriverManager(
            BACKENDS,
            self.configuration.vdisk_backend,
            invoke_on_load=True,
            invoke_args=(root,),
        )
        self.backend: base.Backend = plugin.driver

    def check_for_setup_error(self) -> None:
        """Refuse to start without a lock path; disks may come later."""
        if not CONF.oslo_concurrency.lock_path:
            raise cinder_exc.VolumeDriverException(
                message='[oslo_concurrency] lock_path of cinder.conf is not '
                'set; it must be a directory that all cinder-volume '
                'processes of the host share'
            )
        if not self._disks():
            LOG.warning(
                'No healthy disk (%s) under vdisk_disk_root=%s',
                self.configuration.vdisk_media,
                self.configuration.vdisk_disk_root,
            )

    @property
    def binder(self) -> binding.Binder:
        """What binds vdisks to disks, made when it is first needed."""
        if self._binder is None:
            self._binder = binding.Binder(
                self.backend,
                placement.PlacementClient.from_conf(CONF),
                self.configuration.vdisk_media,
            )
        return self._binder

    def create_volume(self, volume: Any) -> None:
        """Create a volume that takes no space yet."""
        _policy(volume, self.configuration.vdisk_default_mapping)

    def delete_volume(self, volume: Any) -> None:
        """Delete a volume and whatever a killed attempt left of it.

        One on a disk that is missing is kept, lest its bytes be left behind;
        one on a disk that was forgotten went with the disk.
        """
        name = _name(volume)
        disk = volume.provider_location
        with _explained():
            if not disk:
                found = self.binder.find(name)
                if found:
                    self.binder.delete(found.uuid, name)
            elif self.backend.forgotten(disk):
                LOG.warning('Volume %s was on disk %s', volume.id, disk)
            else:
                self._require(disk)
                self.binder.delete(disk, name)

    def extend_volume(self, volume: Any, new_size: int) -> None:
        """Extend a volume to ``new_size`` GiB; it must not be attached."""
        if volume.provider_location:
            with _explained():
                self.binder.extend(
                    volume.provider_location, _name(volume), new_size
                )

    def validate_connector(self, connector: dict[str, Any]) -> None:
        """Refuse every host but this one: a local disk is on no other."""
        here = {
            volume_utils.extract_host(self.host, 'host'),
            CONF.host,
            socket.gethostname(),
        }
        host = connector.get('host')
        if host not in here:
            raise cinder_exc.InvalidConnectorException(
                message=f'vdisks of host {sorted(here)} can be attached '
                f'there only, not on host {host!r}'
            )

    def create_export(
        self, context: Any, volume: Any, connector: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Bind the volume to a disk if it is not bound yet."""
        with _explained():
            server_id = _attaching_server(volume)
            if volume.provider_location:
                self._check_attachable(context, volume, server_id)
                return None
            wanted = self._wanted(context, volume, server_id)
            disk = self.binder.bind(wanted)
        LOG.info('Volume %s is bound to disk %s', volume.id, disk)
        return {'provider_location': disk}

    def ensure_export(self, context: Any, volume: Any) -> None:
        """Say at start where an attached volume's disk is not there.

        Failing would set the volume to error, and a disk may come back.
        """
        if volume.provider_location:
            with contextlib.suppress(cinder_exc.VolumeDriverException):
                with _explained():
                    self._require(volume.provider_location)

    def remove_export(self, context: Any, volume: Any) -> None:
        """Do nothing: a bound volume stays on its disk."""

    def initialize_connection(
        self, volume: Any, connector: dict[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        """Return how to attach the volume on this host."""
        disk = volume.provider_location
        with _explained():
            self._require(disk)
        path = self.backend.device_path(disk, _name(volume))
        return {
            'driver_volume_type': self.backend.connection_type,
            'data': {
                'device_path': path,
                'vdisk': {
                    'disk': disk,
                    'host': volume_utils.extract_host(self.host, 'host'),
                },
            },
        }

    def terminate_connection(
        self, volume: Any, connector: dict[str, Any] | None, **kwargs: Any
    ) -> None:
        """Do nothing: there is no connection to take down."""

    def local_path(self, volume: Any) -> str:
        """Return the path of a bound volume."""
        return self.backend.device_path(
            volume.provider_location, _name(volume)
        )

    def copy_image_to_volume(
        self,
        context: Any,
        volume: Any,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Bind the volume by its policy and write an image to it."""
        super().copy_image_to_volume(
            context, volume, image_service, image_id, disable_sparse
        )
        # the copy truncates the file first: reserve and allocate it again
        disk, name = volume.provider_location, _name(volume)
        with _explained():
            self.binder.extend(disk, name, volume.size)
            self.backend.extend(disk, name, volume.size)

    def copy_image_to_encrypted_volume(
        self, *args: Any, **kwargs: Any
    ) -> None:
        """Not supported."""
        raise _unsupported('images on encrypted volumes')

    def create_snapshot(self, snapshot: Any) -> None:
        """Not supported."""
        raise _unsupported('snapshots')

    def delete_snapshot(self, snapshot: Any) -> None:
        """Do nothing: one that could not be created left nothing."""

    def create_volume_from_snapshot(self, volume: Any, snapshot: Any) -> None:
        """Not supported."""
        raise _unsupported('volumes from snapshots')

    def create_cloned_volume(self, volume: Any, src_vref: Any) -> None:
        """Not supported."""
        raise _unsupported('clones of volumes')

    def _update_volume_stats(self) -> None:
        """Report one pool: Nova's claims decide between the disks.

        What is claimed and not bound yet counts as free, since it is for the
        very volumes that are to be created.
        """
        disks = self._disks()
        name = self.configuration.safe_get('volume_backend_name')
        capabilities = {
            'vdisk_mapper': True,
            'vdisk_media': self.configuration.vdisk_media,
            'vdisk_largest_free_gb': max(
                (disk.free_gb for disk in disks), default=0
            ),
            'thin_provisioning_support': False,
            'thick_provisioning_support': True,
            'online_extend_support': False,
            'multiattach': False,
            'QoS_support': False,
        }
        pool = {
            'pool_name': name,
            'total_capacity_gb': sum(disk.total_gb for disk in disks),
            'free_capacity_gb': sum(disk.free_gb for disk in disks),
            'provisioned_capacity_gb': sum(
                vdisk.size_gb for disk in disks for vdisk in disk.vdisks
            ),
            'reserved_percentage': self.configuration.reserved_percentage,
            'filter_function': self.get_filter_function(),
            'goodness_function': self.get_goodness_function(),
            **capabilities,
        }
        self._stats = {
            'volume_backend_name': name,
            'vendor_name': 'nova-diskplacer',
            'driver_version': self.VERSION,
            'storage_protocol': self.backend.connection_type,
            **capabilities,
            'pools': [pool],
        }

    def _disks(self) -> list[discover.Disk]:
        return binding.usable(self.backend, self.configuration.vdisk_media)

    def _require(self, disk: str | None) -> None:
        if not disk:
            raise exception.DiskError('the volume is not bound to a disk')
        health = self.backend.disk(disk).health
        if health != discover.OK:
            raise exception.DiskError(f'disk {disk} of this host is {health}')

    def _check_attachable(
        self, context: Any, volume: Any, server_id: str | None
    ) -> None:
        """See that a server may take a vdisk bound for another one."""
        disk = self.backend.disk(volume.provider_location)
        name = _name(volume)
        owners = {
            vdisk.server_id for vdisk in disk.vdisks if vdisk.name == name
        }
        if server_id and server_id not in owners:
            self.binder.check_distinct(
                self._wanted(context, volume, server_id), disk.uuid
            )

    def _wanted(
        self, context: Any, volume: Any, server_id: str | None
    ) -> binding.Wanted:
        server = servers.get(context, server_id) if server_id else None
        if server_id and server is None:
            raise binding.BindingError(f'Nova knows no server {server_id}')
        return binding.Wanted(
            name=_name(volume),
            volume_id=volume.id,
            project_id=volume.project_id,
            size_gb=volume.size,
            server=server,
            boot_time=server_id is not None
            and servers.of_blank_volume(volume.display_name) == server_id,
            policy=_policy(volume, self.configuration.vdisk_default_mapping),
            attached=functools.partial(_attached, context, server_id),
        )


def _name(volume: Any) -> str:
    return f'volume-{volume.name_id}'


def _policy(volume: Any, default: str) -> str:
    """Return the mapping of a volume that no claim decides.

    :raises InvalidVolumeType: its type asks for one that there is not.
    """
    type_ = volume.volume_type
    policy: str = (type_.extra_specs if type_ else {}).get(MAPPING, default)
    if policy not in flavor.MAPPINGS:
        raise cinder_exc.InvalidVolumeType(
            reason=f'{MAPPING}={policy} is not one of: '
            + ', '.join(flavor.MAPPINGS)
        )
    return policy


def _attaching_server(volume: Any) -> str | None:
    """Return the server that the volume is attached to or about to be."""
    found = {
        attachment.instance_uuid
        for attachment in volume.volume_attachment
        if attachment.instance_uuid and attachment.attach_status != 'detached'
    }
    if len(found) > 1:
        raise binding.BindingError(
            f'volume {volume.id} is being attached to several servers: '
            + ', '.join(sorted(found))
        )
    return found.pop() if found else None


def _attached(
    context: Any, server_id: str | None
) -> dict[str, frozenset[str]]:
    """Return the names of the vdisks attached to a server, by disk."""
    by_disk = collections.defaultdict(set)
    for attachment in objects.VolumeAttachmentList.get_all_by_instance_uuid(
        context, server_id
    ):
        volume = attachment.volume
        if volume.provider_location:
            by_disk[volume.provider_location].add(_name(volume))
    return {disk: frozenset(names) for disk, names in by_disk.items()}


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Have Cinder report the project's errors as a driver's."""
    try:
        yield
    except exception.DiskPlacerError as error:
        # Cinder itself does not, when it attaches a volume to copy it
        LOG.error('%s', error)
        raise cinder_exc.VolumeDriverException(message=str(error)) from error


def _unsupported(what: str) -> Exception:
    error: Exception = cinder_exc.VolumeDriverException(
        message=f'VDiskMapperDriver does not support {what}'
    )
    return error
