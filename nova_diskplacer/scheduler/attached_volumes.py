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

"""The volumes that are attached to a server, or will be when it boots."""

import json
import typing

import sqlalchemy
from nova import context as nova_context
from nova import exception
from nova import objects
from nova.db.api import api as api_db
from nova.db.api import models


class AttachedVolume(typing.NamedTuple):
    """A volume of a server's block device mapping.

    ``host`` is the host of a bound vdisk according to the connection
    information of the Cinder driver, None for any other volume and for one
    that was never connected.
    """

    volume_id: str
    host: str | None


def read(
    context: nova_context.RequestContext, server_id: str
) -> list[AttachedVolume]:
    """Read the volumes of a server that is built or moved.

    Takes one database read, less than 1 ms, for a new server and three for a
    move.
    """
    return [
        AttachedVolume(bdm.volume_id, _host(bdm.connection_info))
        for bdm in _bdms(context.elevated(), server_id)
        if bdm.is_volume and bdm.volume_id
    ]


# Most requests are for new servers. This column is a small part of their
# build request.
_BUILD_REQUEST_BDMS = sqlalchemy.select(
    models.BuildRequest.block_device_mappings
).where(models.BuildRequest.instance_uuid == sqlalchemy.bindparam('server'))


def _bdms(context: nova_context.RequestContext, server_id: str) -> typing.Any:
    with api_db.context_manager.reader.connection.using(context) as database:
        text = database.execute(
            _BUILD_REQUEST_BDMS, {'server': server_id}
        ).scalar()
    if text is not None:
        primitive = json.loads(text)
        bdms = primitive['nova_object.data']['objects']
        if not any(bdm['nova_object.data'].get('volume_id') for bdm in bdms):
            # blank volumes only: skip making objects, the slowest part
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


def _host(connection_info: str | None) -> str | None:
    if not connection_info:
        return None
    data = json.loads(connection_info).get('data') or {}
    vdisk = data.get('vdisk')
    return vdisk.get('host') if isinstance(vdisk, dict) else None
