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

"""Cinder with a driver that keeps volumes on the simulated disks.

Nova's own fixture stands in for Cinder's API. A volume is bound to a disk
when it is attached for the first time, and connected on that host only.
"""

import types

import fixtures
from nova import exception
from nova.tests import fixtures as nova_fixtures


class VDisks(nova_fixtures.CinderFixture):
    """Volumes of a ``CloudTestCase``.

    :ivar places: {bound volume: (host, disk's UUID)}.
    :ivar default_type: the project's default volume type.
    :ivar quotas: the project's volume quotas, with their usage.
    :ivar media: of the backends of each volume type, on each host.
    :ivar hand_over: whether a bound volume that another host connects is
        bound there anew, as the driver does while nobody has written to it.
    """

    def __init__(self, test):
        super().__init__(test)
        self.places = {}
        self.hand_over = False
        self.default_type = 'lvm-1'
        self.quotas = {}
        self.media = {}

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.volume.cinder.cinderclient', self._client
            )
        )
        self.useFixture(
            fixtures.MockPatch(
                'nova.volume.cinder.API.delete', side_effect=self._delete
            )
        )

    def _client(self, context):
        """Return a client of Cinder's API that knows what the filter asks."""
        default = types.SimpleNamespace(name=self.default_type)
        quotas = types.SimpleNamespace(to_dict=lambda: self.quotas)
        return types.SimpleNamespace(
            volume_types=types.SimpleNamespace(
                default=lambda: default,
                list=lambda is_public: [
                    types.SimpleNamespace(
                        name=name, extra_specs={'volume_backend_name': name}
                    )
                    for name in self.media
                ],
            ),
            pools=types.SimpleNamespace(
                list=lambda detailed: [
                    types.SimpleNamespace(
                        name=f'{host}@{name}#{name}',
                        volume_backend_name=name,
                        vdisk_media=media,
                        vdisk_mapper=True,
                    )
                    for host in self.test.hosts
                    for name, media in self.media.items()
                ]
            ),
            quotas=types.SimpleNamespace(get=lambda *_, **__: quotas),
        )

    def _delete(self, context, volume_id):
        """Delete a volume, and its vdisk if it is bound."""
        del self.volumes[volume_id]
        if volume_id in self.places:
            host, _ = self.places.pop(volume_id)
            self.test.hosts[host].unbind(volume_id)

    def fake_vol_create(self, *args, volume_type=None, **kwargs):
        volume = super().fake_vol_create(
            *args, volume_type=volume_type, **kwargs
        )
        volume['volume_type_id'] = volume_type or self.default_type
        # the fixture of Nova 31 leaves it out, and Nova asks for it
        volume.setdefault('multiattach', False)
        return volume

    def create(self, size_gb):
        """Create a volume and return its UUID."""
        return self.fake_vol_create(None, size_gb, 'data', None)['id']

    def fake_attachment_update(
        self, context, attachment_id, connector, mountpoint=None
    ):
        """Bind the volume as the driver's ``create_export`` does."""
        volume_id, attachment, _ = self._find_attachment(attachment_id)
        self._bind(volume_id, attachment['instance_uuid'], connector['host'])
        return super().fake_attachment_update(
            context, attachment_id, connector, mountpoint
        )

    def _bind(self, volume_id, server_id, host):
        if volume_id in self.places:
            there, _ = self.places[volume_id]
            if there == host:
                return
            if not self.hand_over:
                raise exception.InvalidInput(
                    f'volume {volume_id} is on host {there}, not on {host}'
                )
            self.test.hosts[there].unbind(volume_id)
        size_gb = self.volumes[volume_id]['size']
        disk = self.test.hosts[host].bind(volume_id, server_id, size_gb)
        self.places[volume_id] = host, disk

    def _find_connection_info(self, volume_id, attachment_id):
        info = super()._find_connection_info(volume_id, attachment_id)
        if volume_id in self.places:
            host, disk = self.places[volume_id]
            info['data']['vdisk'] = {'disk': disk, 'host': host}
        return info
