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

"""Cinder with a driver whose vdisks follow their servers to other hosts.

It answers Nova as the driver does: the vdisk stays, the other host gets a
target for it, and the connection of that host names where the data is, until
the data has been copied: ``settle``.
"""

from nova import exception

from nova_diskplacer import constants
from tests.functional.nova import volumes


class MovingVDisks(volumes.VDisks):
    """Volumes of a ``CloudTestCase``.

    :ivar targets: {volume that moves: (host, disk's UUID) of its target}.
    :ivar connection_type: of new connections, ``local`` or ``gpfs``.
    :ivar refused_volumes: those that the driver attaches on no other host.
    """

    def __init__(self, test):
        super().__init__(test)
        self.targets = {}
        self.connection_type = 'local'
        self.refused_volumes = ()

    def fake_attachment_create(
        self,
        context,
        volume_id,
        instance_uuid,
        connector=None,
        mountpoint=None,
    ):
        """Attach on the host of the connector, if it is given."""
        made = super().fake_attachment_create(
            context, volume_id, instance_uuid
        )
        if connector is not None:
            try:
                self._bind(volume_id, instance_uuid, connector['host'])
            except exception.InvalidInput:
                del self.volume_to_attachment[volume_id][made['id']]
                raise
            _, attachment, _ = self._find_attachment(made['id'])
            attachment['connector'] = connector
            made['connection_info'] = self._find_connection_info(
                volume_id, made['id']
            )
        return made

    def _bind(self, volume_id, server_id, host):
        data_host, _ = self.places.get(volume_id, (host, None))
        if host == data_host:
            super()._bind(volume_id, server_id, host)
            return
        if volume_id in self.refused_volumes:
            raise exception.InvalidInput(f'{volume_id} has snapshots')
        if volume_id in self.targets:
            if self.targets[volume_id][0] == host:
                return
            raise exception.InvalidInput(f'{volume_id} has not settled')
        size_gb = self.volumes[volume_id]['size']
        disk = self.test.hosts[host].bind(volume_id, server_id, size_gb)
        self.targets[volume_id] = host, disk

    def fake_attachment_delete(self, context, attachment_id):
        """Delete the target if its host lets go of the volume."""
        volume_id, attachment, _ = self._find_attachment(attachment_id)
        connector = attachment['connector'] or {}
        super().fake_attachment_delete(context, attachment_id)
        target = self.targets.get(volume_id)
        if target and target[0] == connector.get('host'):
            del self.targets[volume_id]
            self.test.hosts[target[0]].unbind(volume_id)

    def settle(self, *volume_ids):
        """Have the data of volumes arrive at their targets."""
        for volume_id in volume_ids:
            source, _ = self.places[volume_id]
            self.places[volume_id] = self.targets.pop(volume_id)
            self.test.hosts[source].unbind(volume_id)

    def _find_connection_info(self, volume_id, attachment_id):
        info = super()._find_connection_info(volume_id, attachment_id)
        _, attachment, _ = self._find_attachment(attachment_id)
        there = (attachment['connector'] or {}).get('host')
        info['driver_volume_type'] = self.connection_type
        if volume_id in self.targets and self.targets[volume_id][0] == there:
            host, disk = self.targets[volume_id]
            info['driver_volume_type'] = 'local'
            info['data']['vdisk'] = {
                'disk': disk,
                'host': host,
                constants.MOVING_FROM: self.places[volume_id][0],
            }
        return info
