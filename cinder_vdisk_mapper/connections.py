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

"""How vdisks are attached: by servers of this host, and to be copied."""

import collections
import contextlib
import functools
import socket
from typing import Any

from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import export
from cinder_vdisk_mapper import handover
from cinder_vdisk_mapper import naming
from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper import type_mapping

CONF = cfg.CONF

LOG = logging.getLogger(__name__)

# While volumes are filled by cinder-backup, which truncates a file first, as
# Cinder does with the target of a migration.
_RESTORED = ('creating', 'restoring-backup')


class Connections(handover.Handover):
    """Binds volumes when they are needed and says how to attach them."""

    @functools.cached_property
    def exporter(self) -> export.Exporter:
        """What exports vdisks to other hosts, made if it is ever needed."""
        return export.Exporter(self.configuration, self.target_mapping)

    def validate_connector(self, connector: dict[str, Any]) -> None:
        """See that a connector names its host.

        Whether a volume may be attached there depends on the volume:
        :meth:`create_export` refuses.
        """
        if not connector.get('host'):
            raise cinder_exc.InvalidConnectorException(missing='host')

    def create_export(
        self, context: Any, volume: Any, connector: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Bind the volume to a disk if it is not bound yet.

        One without content is handed over to the host of its server.

        :raises VolumeDriverException: it cannot be attached on that host, or
            there is no disk for it.
        """
        with errors.explained():
            here = self._is_here(connector)
            wanted = self._wanted(context, volume)
            if not here and not export.wanted(volume):
                self.hand_over(context, volume, wanted, connector['host'])
                return None
            disk = volume.provider_location
            update = {}
            if disk:
                self.require(disk, naming.volume(volume))
                self._check_attachable(wanted, disk)
            else:
                disk = self.binder.bind(wanted)
                update = {'provider_location': disk}
                LOG.info('Volume %s is bound to disk %s', volume.id, disk)
            if not here:
                path = self.backend.device_path(disk, naming.volume(volume))
                update |= self.exporter.create(context, volume, path)
        return update or None

    def ensure_export(self, context: Any, volume: Any) -> None:
        """Say at start where an attached volume's disk is not there.

        Failing would set the volume to error, and a disk may come back. What
        was exported was for a copy that has ended with this process.
        """
        self.remove_export(context, volume)
        if volume.provider_location:
            with contextlib.suppress(cinder_exc.VolumeDriverException):
                with errors.explained():
                    self.require(volume.provider_location)

    def remove_export(self, context: Any, volume: Any) -> None:
        """Take down what another host copied to; the volume stays bound."""
        if volume.provider_id:
            self.exporter.remove(context, volume, self.local_path(volume))
        filled = volume.status in _RESTORED or export.wanted(volume)
        if volume.provider_location and filled:
            with errors.explained():
                # what was cut off or left out is allocated again
                self.binder.extend(
                    volume.provider_location,
                    naming.volume(volume),
                    volume.size,
                )

    def initialize_connection(
        self, volume: Any, connector: dict[str, Any], **kwargs: Any
    ) -> dict[str, Any]:
        """Return how to attach the volume on the connector's host."""
        disk = volume.provider_location
        with errors.explained():
            if self.is_elsewhere(volume):
                return self.connect_elsewhere(volume, connector)
            self.require(disk, naming.volume(volume))
        if not self._is_here(connector):
            return self.exporter.connection(volume, connector)
        path = self.backend.device_path(disk, naming.volume(volume))
        return {
            'driver_volume_type': self.backend.connection_type,
            'data': {
                'device_path': path,
                'vdisk': {
                    'disk': disk,
                    'host': self._host,
                },
            },
        }

    def terminate_connection(
        self, volume: Any, connector: dict[str, Any] | None, **kwargs: Any
    ) -> None:
        """No longer let another host in; here is nothing to take down."""
        if connector and not self._is_here(connector):
            self.exporter.disconnect(volume, connector)

    def local_path(self, volume: Any) -> str:
        """Return the path of a bound volume."""
        return self.backend.device_path(
            volume.provider_location, naming.volume(volume)
        )

    @property
    def _host(self) -> str:
        host: str = volume_utils.extract_host(self.host, 'host')
        return host

    def _is_here(self, connector: dict[str, Any]) -> bool:
        """Tell whether a connector is of this host, by any of its names."""
        names = (self._host, CONF.host, socket.gethostname())
        return connector.get('host') in names

    def _check_attachable(self, wanted: binding.Wanted, disk: str) -> None:
        """See that a server may take a vdisk bound for another one."""
        owners = {
            vdisk.server_id
            for vdisk in self.backend.disk(disk).vdisks
            if vdisk.name == wanted.name
        }
        if wanted.server and wanted.server.uuid not in owners:
            self.binder.check_distinct(wanted, disk)

    def _wanted(self, context: Any, volume: Any) -> binding.Wanted:
        server = _attaching_server(context, volume)
        blank_of = nova_api.of_blank_volume(volume.display_name)
        return binding.Wanted(
            name=naming.volume(volume),
            volume_id=volume.id,
            size_gb=volume.size,
            server=server,
            boot_time=server is not None and blank_of == server.uuid,
            policy=type_mapping.of_volume(
                volume, self.configuration.vdisk_default_mapping
            ),
            attached=functools.partial(_attached, context, server)
            if server
            else dict,
        )


def _attaching_server(context: Any, volume: Any) -> nova_api.Server | None:
    """Return the server that the volume is attached to or about to be.

    Any member of the volume's project can make an attachment that names any
    server, so Nova is asked whose server it is, each time.

    :raises BindingError: Nova knows no such server in the volume's project,
        or there are several.
    :raises NovaError: Nova cannot be asked.
    """
    found = {
        attachment.instance_uuid
        for attachment in volume.volume_attachment
        if attachment.instance_uuid and attachment.attach_status != 'detached'
    }
    if len(found) > 1:
        raise binding.BindingError(
            f'volume {volume.id} is being attached to several servers: '
            + ', '.join(sorted(found)),
            'the volume is being attached to several servers',
        )
    if not found:
        return None
    (uuid,) = found
    server = nova_api.get(context, uuid)
    if server is None:
        raise binding.BindingError(
            f'volume {volume.id}: Nova knows no server {uuid}',
            binding.FOREIGN,
        )
    if server.project_id != volume.project_id:
        raise binding.BindingError(
            f'volume {volume.id} is of project {volume.project_id}, server '
            f'{uuid} of project {server.project_id}',
            binding.FOREIGN,
        )
    return server


def _attached(
    context: Any, server: nova_api.Server
) -> dict[str, frozenset[str]]:
    """Return the names of the vdisks attached to a server, by disk.

    Those that are to be attached count as well. Volumes of other projects do
    not: whoever made their attachments had no right to.
    """
    by_disk = collections.defaultdict(set)
    for attachment in objects.VolumeAttachmentList.get_all_by_instance_uuid(
        context, server.uuid
    ):
        volume = attachment.volume
        if volume.provider_location and volume.project_id == server.project_id:
            by_disk[volume.provider_location].add(naming.volume(volume))
    return {disk: frozenset(names) for disk, names in by_disk.items()}
