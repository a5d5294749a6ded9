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

"""Lets another host reach a vdisk while Cinder migrates a volume to it.

The vdisk is exported by the target driver of Cinder's own that the backend's
``target_helper`` names. Servers never see that: a local disk is for the
servers of its host.
"""

from typing import Any

from oslo_log import log as logging
from oslo_utils import importutils

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

# How Cinder marks the volume that it copies another one to.
_TARGET = 'target:'

# In place of where an export is, until that is known.
_BEGUN = 'begun'


class ExportError(exception.DiskPlacerError):
    """A vdisk cannot be exported to another host."""


def wanted(volume: Any) -> bool:
    """Tell whether Cinder may reach a volume from another host.

    It does to fill the volume that replaces one of that host. A server that
    is attached to it would stay on the other host, away from its disk.
    """
    migration = volume.migration_status or ''
    return migration.startswith(_TARGET) and not any(
        attachment.instance_uuid for attachment in volume.volume_attachment
    )


class Exporter:
    """Exports vdisks through one of Cinder's target drivers.

    ``provider_location`` of a volume names its disk, so where the export is
    is kept in ``provider_id`` for as long as there is one.

    :param configuration: of the backend.
    :param drivers: the class of each ``target_helper``.
    """

    def __init__(self, configuration: Any, drivers: dict[str, str]) -> None:
        self.helper: str = configuration.safe_get('target_helper')
        self.target = importutils.import_object(
            drivers[self.helper], configuration=configuration
        )

    def create(self, context: Any, volume: Any, path: str) -> dict[str, Any]:
        """Export the vdisk at ``path``; returns what the volume is to keep.

        :raises ExportError: the target driver failed; says how to set it up.
        """
        volume.provider_id = _BEGUN
        volume.save()
        made = self._create(context, volume, path)
        LOG.info('Volume %s is exported: %s', volume.id, made['location'])
        return {
            'provider_id': made['location'],
            'provider_auth': made['auth'],
        }

    def connection(
        self, volume: Any, connector: dict[str, Any]
    ) -> dict[str, Any]:
        """Return how the host of ``connector`` attaches the export."""
        connection: dict[str, Any] = self.target.initialize_connection(
            _as_exported(volume), connector
        )
        return connection

    def disconnect(self, volume: Any, connector: dict[str, Any]) -> None:
        """No longer let a host in."""
        if volume.provider_id:
            self.target.terminate_connection(_as_exported(volume), connector)

    def remove(self, context: Any, volume: Any, path: str) -> None:
        """Take down the export of a volume, if there is one."""
        if not volume.provider_id:
            return
        if volume.provider_id == _BEGUN:
            # killed before it could say where: exporting is repeatable
            try:
                made = self._create(context, volume, path)
            except ExportError as error:
                LOG.warning('There can be no export to take down: %s', error)
                return
            volume.provider_id = made['location']
        self.target.remove_export(context, _as_exported(volume))
        self._forget(volume)

    @staticmethod
    def _forget(volume: Any) -> None:
        volume.provider_id = volume.provider_auth = None
        volume.save()

    def _create(self, context: Any, volume: Any, path: str) -> dict[str, Any]:
        try:
            made: dict[str, Any] = self.target.create_export(
                context, _as_exported(volume), path
            )
        except Exception as error:
            # whatever the target's command-line tools raise
            self._forget(volume)
            raise ExportError(
                f'volume {volume.id} cannot be exported to another host by '
                f'target_helper={self.helper} ({error}); see target_helper '
                'and target_ip_address in cinder.conf'
            ) from error
        return made


def _as_exported(volume: Any) -> Any:
    exported = volume.obj_clone()
    exported.provider_location = volume.provider_id
    return exported
