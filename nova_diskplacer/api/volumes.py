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

"""Reads the volumes of a request for a server from Cinder and Glance.

All questions are asked by Nova's own clients, as the user who sent the
request. Nova has most of them asked again when it creates the servers.

The clients put an ID into a path, and take an image's ID with a slash for the
URL of an image service, to which they send the user's token and Nova's own. So
only UUIDs reach them.
"""

import functools
import typing

from cinderclient import exceptions as cinder_exc
from keystoneauth1 import exceptions as ks_exc
from nova import block_device
from nova import exception
from nova.image import glance
from nova.volume import cinder
from oslo_utils import uuidutils

from nova_diskplacer.api import decision
from nova_diskplacer.api import quota

Mapping = dict[str, typing.Any]

#: Errors of questions.
ERRORS = (
    exception.NovaException,
    cinder_exc.ClientException,
    cinder_exc.ConnectionError,
    ks_exc.ClientException,
)


class Volumes:
    """The volumes of one request, by Cinder's and Glance's answers.

    :param context: the request's context.
    """

    def __init__(self, context: typing.Any) -> None:
        self._context = context
        self._cinder = cinder.API()

    def default_type(self) -> str:
        """Return the name of the project's default volume type."""
        return str(self._client.volume_types.default().name)

    def quotas(self) -> quota.Quotas:
        """Return the project's quotas with their usage, by name."""
        quotas = self._client.quotas.get(self._context.project_id, usage=True)
        answer: quota.Quotas = quotas.to_dict()
        return answer

    def describe(self, mapping: Mapping) -> decision.Volume | None:
        """Return the volume of a block device mapping, None for no volume.

        :param mapping: as Nova normalizes it, a ``BlockDeviceDict``.
        :raises ValueError: it names a volume or a snapshot by no UUID.
        """
        if mapping.get('no_device'):
            return None
        if mapping.get('destination_type') != 'volume':
            return None
        is_root = mapping.get('boot_index') == 0
        source = mapping['source_type']
        if source == 'volume':
            if is_root:
                return decision.Volume(None, bootable=True)
            volume = self._cinder.get(
                self._context, _checked(mapping['volume_id'])
            )
            return decision.Volume(
                volume['size'],
                volume['volume_type_id'],
                bootable=volume['bootable'],
            )
        size_gb = mapping.get('volume_size')
        volume_type = self.type_name(mapping.get('volume_type'))
        bootable = is_root or source == 'image'
        if source == 'snapshot':
            snapshot = self._cinder.get_snapshot(
                self._context, _checked(mapping['snapshot_id'])
            )
            size_gb = size_gb or snapshot['size']
            if volume_type is None or not bootable:
                volume = self._cinder.get(self._context, snapshot['volume_id'])
                volume_type = volume_type or volume['volume_type_id']
                bootable = bootable or volume['bootable']
        return decision.Volume(
            size_gb,
            volume_type,
            is_blank=source == 'blank',
            is_new=True,
            bootable=bootable,
            of_snapshot=source == 'snapshot',
        )

    def of_image(self, image_id: str) -> list[Mapping]:
        """Return the block device mappings that an image brings.

        That is the image of a server that had booted from a volume.

        :raises ValueError: the ID is no UUID.
        """
        image = glance.API().get(
            self._context, _checked(image_id), show_deleted=False
        )
        properties = image.get('properties') or {}
        mappings = properties.get('block_device_mapping') or []
        if properties.get('bdm_v2'):
            return [
                block_device.BlockDeviceDict(mapping) for mapping in mappings
            ]
        root = block_device.properties_root_device_name(properties)
        legacy: list[Mapping] = block_device.from_legacy_mapping(
            mappings, None, root or 'vda'
        )
        return legacy

    def type_name(self, name: str | None) -> str | None:
        """Return the name of a volume type, which may be given by its ID."""
        if not name or not uuidutils.is_uuid_like(name):
            return name or None
        return self._type_names.get(name, name)

    @functools.cached_property
    def _type_names(self) -> dict[str, str]:
        """Names of the volume types by ID, asked for once per request."""
        types = self._cinder.get_all_volume_types(self._context)
        return {
            volume_type['id']: volume_type['name'] for volume_type in types
        }

    @functools.cached_property
    def _client(self) -> typing.Any:
        return cinder.cinderclient(self._context)


def _checked(name: object) -> str:
    """Return the ID, by Nova's rule.

    :raises ValueError: it is no UUID.
    """
    if not isinstance(name, str) or not uuidutils.is_uuid_like(name):
        raise ValueError(f'{name!r} is no UUID')
    return name
