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

"""The body of a request for servers: what it brings, and what is added."""

import copy
import dataclasses
import json
import typing

from nova import block_device

from nova_diskplacer.api import decision
from nova_diskplacer.api import volumes

_LEGACY = 'block_device_mapping'
_MAPPINGS = 'block_device_mapping_v2'


@dataclasses.dataclass(frozen=True)
class ServerRequest:
    """A request for servers, as far as it is about volumes.

    ``flavor`` is an ID, or a URL that ends with it. ``mappings`` are
    normalized by Nova. ``image`` is what the servers boot from, or what their
    root volumes are made of. ``names_host``: they are all on one host.
    """

    body: dict[str, typing.Any]
    flavor: str
    image: str | None
    servers: int
    mappings: list[volumes.Mapping]
    is_legacy: bool
    names_host: bool


def load(body: dict[str, typing.Any]) -> ServerRequest:
    """Return the request for servers that a body is.

    :param body: one that Nova's schema accepts. That leaves mappings that
        Nova refuses later.
    :raises Exception: of any type, for what Nova refuses.
    """
    server = body['server']
    mappings = _mappings(server)
    image = server.get('imageRef')
    for mapping in mappings:
        if _is_root(mapping) and _is_of_image(mapping):
            image = image or mapping['image_id']
    if not image and not mappings:
        raise ValueError('nothing to boot from')
    return ServerRequest(
        body,
        str(server['flavorRef']),
        image,
        int(server.get('max_count') or server.get('min_count') or 1),
        mappings,
        bool(server.get(_LEGACY)),
        bool(
            server.get('host')
            or server.get('hypervisor_hostname')
            # ZONE:HOST or ZONE::NODE; anybody may send ZONE:, which names none
            or (server.get('availability_zone') or '')
            .partition(':')[2]
            .strip(':')
        ),
    )


def _mappings(server: dict[str, typing.Any]) -> list[volumes.Mapping]:
    image = server.get('imageRef')
    legacy, mappings = (
        copy.deepcopy(server.get(key) or []) for key in (_LEGACY, _MAPPINGS)
    )
    if legacy and mappings:
        raise ValueError('both kinds of mappings')
    if legacy:
        normalized: list[volumes.Mapping] = block_device.from_legacy_mapping(
            legacy, image or '', 'vda'
        )
        return normalized
    return [
        block_device.BlockDeviceDict.from_api(
            mapping, image_uuid_specified=bool(image)
        )
        for mapping in mappings
    ]


def describe(
    request: ServerRequest, names_types: bool, volume_api: volumes.Volumes
) -> decision.Request:
    """Return the volumes that a request and its image bring.

    :param names_types: the microversion can name a volume type.
    """
    mappings = list(request.mappings)
    if request.image:
        of_image = volume_api.of_image(request.image)
        if not request.is_legacy and any(map(_is_root, of_image)):
            # Nova boots from the image's own root, and drops the request's
            mappings = [
                mapping
                for mapping in mappings
                if not (_is_root(mapping) and _is_of_image(mapping))
            ]
        names = {mapping['device_name'] for mapping in mappings} - {None}
        mappings += [
            mapping
            for mapping in of_image
            if mapping['device_name'] not in names
        ]
    described = [volume_api.describe(mapping) for mapping in mappings]
    return decision.Request(
        volumes=tuple(volume for volume in described if volume),
        servers=request.servers,
        names_types=names_types,
        is_legacy=request.is_legacy,
        names_host=request.names_host,
    )


def _is_root(mapping: volumes.Mapping) -> bool:
    return mapping.get('boot_index') == 0


def _is_of_image(mapping: volumes.Mapping) -> bool:
    return bool(mapping['source_type'] == 'image')


def with_vdisks(
    request: ServerRequest, vdisks: tuple[decision.Volume, ...]
) -> bytes:
    """Return the body with the mappings of vdisks added.

    Nova wants a boot device as soon as there is any mapping. If there is none,
    the image is added as Nova itself does in a request without mappings.
    """
    server = request.body['server']
    mappings = list(server.get(_MAPPINGS) or ())
    if not mappings:
        mappings.append(
            {
                'source_type': 'image',
                'destination_type': 'local',
                'uuid': server['imageRef'],
                'boot_index': 0,
                'delete_on_termination': True,
            }
        )
    mappings += [decision.mapping(vdisk) for vdisk in vdisks]
    server = {**server, _MAPPINGS: mappings}
    return json.dumps({**request.body, 'server': server}).encode()
