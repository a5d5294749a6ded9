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

"""The volumes of a server that Nova builds or moves, from its databases."""

import collections.abc
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
    that was never connected. ``is_root``: the server boots from it.
    ``is_blank``: Nova has made it for the server's boot. ``size_gb`` is None
    if Nova does not know it.
    """

    volume_id: str
    host: str | None
    is_root: bool = False
    is_blank: bool = False
    size_gb: int | None = None


class BootVolume(typing.NamedTuple):
    """A volume of a server that is built.

    ``size_gb`` is in GiB; ``volume_type`` is None if the mapping names none.
    ``bootable``: the server boots from it, or it is made of an image.
    ``is_new``: it is created with the server.
    """

    size_gb: int | None
    volume_type: str | None
    bootable: bool = False
    is_new: bool = False


class ServerVolumes(typing.NamedTuple):
    """The volumes of a server: those that exist, and all that it boots with.

    ``at_boot`` is None for a server that moves.
    """

    attached: collections.abc.Sequence[AttachedVolume] = ()
    at_boot: collections.abc.Sequence[BootVolume] | None = None


def read(context: typing.Any, server_id: str) -> ServerVolumes:
    """Read the volumes of a server that is built or moved.

    A new server takes one database read, less than 1 ms, a move three. Nova's
    databases do not ask who the context's user is.
    """
    primitive = _build_request_bdms(context, server_id)
    if primitive is None:
        return ServerVolumes(_attached(_instance_bdms(context, server_id)))
    bdms = [
        bdm['nova_object.data']
        for bdm in primitive['nova_object.data']['objects']
    ]
    at_boot = [
        BootVolume(
            bdm.get('volume_size'),
            bdm.get('volume_type'),
            bdm.get('boot_index') == 0 or bdm.get('source_type') == 'image',
            bdm.get('source_type') != 'volume',
        )
        for bdm in bdms
        if bdm.get('destination_type') == 'volume'
    ]
    if not any(bdm.get('volume_id') for bdm in bdms):
        # blank volumes only: skip making objects, the slowest part
        return ServerVolumes((), at_boot)
    mappings = objects.BlockDeviceMappingList.obj_from_primitive(primitive)
    return ServerVolumes(_attached(mappings), at_boot)


def _attached(
    bdms: collections.abc.Iterable[typing.Any],
) -> list[AttachedVolume]:
    return [
        AttachedVolume(
            bdm.volume_id,
            _host(bdm.connection_info),
            bdm.boot_index == 0,
            bdm.source_type == 'blank',
            bdm.volume_size,
        )
        for bdm in bdms
        if bdm.is_volume and bdm.volume_id
    ]


# Most requests are for new servers. This column is a small part of their
# build request.
_BUILD_REQUEST_BDMS = sqlalchemy.select(
    models.BuildRequest.block_device_mappings
).where(models.BuildRequest.instance_uuid == sqlalchemy.bindparam('server'))


def _build_request_bdms(context: typing.Any, server_id: str) -> typing.Any:
    with api_db.context_manager.reader.connection.using(context) as database:
        text = database.execute(
            _BUILD_REQUEST_BDMS, {'server': server_id}
        ).scalar()
    return None if text is None else json.loads(text)


def _instance_bdms(context: typing.Any, server_id: str) -> typing.Any:
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
