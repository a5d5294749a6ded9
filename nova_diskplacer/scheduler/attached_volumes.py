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

"""The volumes that a server brings to a request."""

import json
import typing

import sqlalchemy
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.db.api import api as api_db
from nova.db.api import models

#: Attribute of a request spec. Nova neither stores nor sends what is no field.
KEPT = 'diskplacer_volumes'


class Attached(typing.NamedTuple):
    """A volume of a server's block device mapping.

    ``host`` is the Cinder driver's word on where a bound vdisk lies, None
    for a volume that is none or was never connected.
    """

    volume_id: str
    host: str | None


def brought(spec: typing.Any) -> list[Attached]:
    """Return the volumes that a request's server brings.

    They are read once for all filters that the request spec goes through.
    """
    kept: tuple[str, list[Attached]] | None = getattr(spec, KEPT, None)
    if kept is None or kept[0] != spec.instance_uuid:
        # a multi-create goes through with one server after the other
        server_id = spec.instance_uuid
        kept = server_id, volumes(spec.obj_context, server_id)
        setattr(spec, KEPT, kept)
    return kept[1]


def volumes(
    context: nova_context.RequestContext, server_id: str
) -> list[Attached]:
    """Return the volumes of a server that is being built or moved.

    One database read, less than 1 ms, for a new server; three for a move.
    """
    return [
        Attached(bdm.volume_id, _host(bdm.connection_info))
        for bdm in _bdms(context.elevated(), server_id)
        if bdm.is_volume and bdm.volume_id
    ]


# Most requests are for new servers, and this column is a small part of their
# build request.
_OF_BUILD_REQUEST = sqlalchemy.select(
    models.BuildRequest.block_device_mappings
).where(models.BuildRequest.instance_uuid == sqlalchemy.bindparam('server'))


def _bdms(context: nova_context.RequestContext, server_id: str) -> typing.Any:
    with api_db.context_manager.reader.connection.using(context) as database:
        text = database.execute(
            _OF_BUILD_REQUEST, {'server': server_id}
        ).scalar()
    if text is not None:
        primitive = json.loads(text)
        if not any(_volume_id(bdm) for bdm in _data(primitive)['objects']):
            # blank ones only; objects take longer to make than to read
            return []
        return objects.BlockDeviceMappingList.obj_from_primitive(primitive)
    try:
        mapping = objects.InstanceMapping.get_by_instance_uuid(
            context, server_id
        )
    except exception.InstanceMappingNotFound:
        return []
    if mapping.cell_mapping is None:
        return []
    with nova_context.target_cell(context, mapping.cell_mapping) as cell:
        return objects.BlockDeviceMappingList.get_by_instance_uuid(
            cell, server_id
        )


def _data(primitive: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Return the fields of one of Nova's objects as it is stored."""
    data: dict[str, typing.Any] = primitive['nova_object.data']
    return data


def _volume_id(primitive: dict[str, typing.Any]) -> str | None:
    return _data(primitive).get('volume_id')


def _host(connection_info: str | None) -> str | None:
    if not connection_info:
        return None
    data = json.loads(connection_info).get('data') or {}
    vdisk = data.get('vdisk')
    return vdisk.get('host') if isinstance(vdisk, dict) else None
