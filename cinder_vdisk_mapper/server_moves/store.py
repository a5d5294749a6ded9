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

"""Reads and writes the records of servers' moves in Cinder's database.

Both hosts change the phase of a record only if it is still what they have
read, so that of two who decide at a time one succeeds.
"""

import collections.abc
import dataclasses
from typing import Any

from cinder import context as cinder_context
from cinder import objects
from cinder.volume import volume_utils
from oslo_log import log as logging
from oslo_utils import timeutils

from cinder_vdisk_mapper.cinder_api import errors
from cinder_vdisk_mapper.cinder_api.releases import db_api
from cinder_vdisk_mapper.cinder_api.releases import models
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import attachments
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves.record import Record
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_Row = models.VolumeAdminMetadata


class Changed(exception.DiskPlacerError):
    """Another process has changed the record meanwhile."""


@errors.cinder_errors()
def read(volume_id: str) -> Record | None:
    """Return the record of a volume, None for a volume at rest.

    :raises DiskPlacerError: it is invalid, or the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        return _read(db, volume_id)


@errors.cinder_errors()
def begin(volume_id: str, new: Record) -> None:
    """Write the record of a volume that has none; it is locked.

    :raises Changed: it has one.
    :raises DiskPlacerError: as :func:`read`.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.writer.using(context) as db:
        if _read(db, volume_id) is not None:
            raise Changed(f'a server with volume {volume_id} moves already')
        for key, value in record.format_record(new).items():
            db.add(_Row(key=key, value=value, volume_id=volume_id))


@errors.cinder_errors()
def advance(
    volume_id: str, before: Record, phase: str, copied: str | None = None
) -> Record:
    """Change the phase of a record and return the new one.

    :param copied: what :func:`copied` tells from then on, None to leave it.
    :raises Changed: the record is not as it was.
    :raises DiskPlacerError: as :func:`read`.
    """
    after = dataclasses.replace(before, phase=phase)
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.writer.using(context) as db:
        _check(db, volume_id, before)
        changed = (
            _rows(db, volume_id)
            .filter_by(key=record.PHASE, value=before.phase)
            .update(
                {'value': phase, 'updated_at': timeutils.utcnow()},
                synchronize_session=False,
            )
        )
        if changed == 1 and copied is not None:
            _delete(db, volume_id, (record.COPIED,))
            if copied:
                db.add(
                    _Row(key=record.COPIED, value=copied, volume_id=volume_id)
                )
    if changed != 1:
        raise _changed(volume_id, before)
    LOG.info(
        'The move of server %s to %s with volume %s is %s',
        before.server,
        before.to,
        volume_id,
        phase,
    )
    return after


@errors.cinder_errors()
def changed(volume_id: str) -> str:
    """Return when the phase of a record was changed, '' without a record.

    :raises DiskPlacerError: the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        row = _row(db, volume_id, record.PHASE)
        return f'{row.id}@{row.updated_at}' if row else ''


@errors.cinder_errors()
def copied(volume_id: str) -> str:
    """Return what was recorded of a copy with a decision, '' for nothing.

    :raises DiskPlacerError: the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        row = _row(db, volume_id, record.COPIED)
        return str(row.value) if row else ''


@errors.cinder_errors()
def forget(volume_id: str, before: Record) -> None:
    """Remove a record: the move has ended.

    :raises Changed: the record is not as it was.
    :raises DiskPlacerError: as :func:`read`.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.writer.using(context) as db:
        _check(db, volume_id, before)
        _delete(db, volume_id, (*record.KEYS, record.COPIED))
    LOG.info(
        'The move of server %s to %s with volume %s has ended',
        before.server,
        before.to,
        volume_id,
    )


@errors.cinder_errors()
def moving_volumes() -> list[str]:
    """Return the IDs of the volumes that have a record.

    :raises DiskPlacerError: the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        rows = (
            db.query(_Row.volume_id)
            .filter(_Row.key.in_(record.KEYS), _Row.deleted.is_(False))
            .distinct()
        )
        return sorted(volume_id for (volume_id,) in rows)


@errors.cinder_errors()
def moving_vdisks() -> frozenset[str]:
    """Return the names of the vdisks of volumes that have a record.

    :raises DiskPlacerError: the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        rows = (
            db.query(models.Volume)
            .join(_Row, _Row.volume_id == models.Volume.id)
            .filter(
                _Row.key == record.TO,
                _Row.deleted.is_(False),
                models.Volume.deleted.is_(False),
            )
        )
        return frozenset(f'volume-{row.name_id}' for row in rows)


@errors.cinder_errors()
def arriving_volumes(backends: collections.abc.Iterable[str]) -> list[str]:
    """Return the IDs of the volumes whose servers move to some backends.

    :param backends: Cinder hosts without pools.
    :raises DiskPlacerError: the database does not answer.
    """
    context = cinder_context.get_admin_context()
    with db_api.main_context_manager.reader.using(context) as db:
        rows = db.query(_Row.volume_id).filter(
            _Row.key == record.TO,
            _Row.value.in_(sorted(backends)),
            _Row.deleted.is_(False),
        )
        return sorted(volume_id for (volume_id,) in rows)


@errors.cinder_errors()
def fresh(volume_id: str) -> Volume:
    """Read a volume.

    :raises DiskPlacerError: there is none, or the database does not answer.
    """
    volume: Volume = objects.Volume.get_by_id(
        cinder_context.get_admin_context(), volume_id
    )
    return volume


def holder(volume: Volume) -> str:
    """Return the backend that has a volume, as ``host@section``."""
    return str(volume_utils.extract_host(volume.host, 'backend'))


@errors.cinder_errors()
def connectors(volume_id: str) -> dict[str, dict[str, Any]]:
    """Return the connectors of the hosts that have a volume attached.

    :returns: by the name of the host.
    """
    by_host = {}
    for attachment in attachments(fresh(volume_id)):
        connector = attachment.connector or {}
        if host := connector.get('host'):
            by_host[host] = dict(connector)
    return by_host


@errors.cinder_errors()
def is_shared(volume_id: str, host: str) -> bool:
    """Return whether a host has several attachments of a volume.

    :param host: its name in the connectors.
    """
    hosts = [
        (attachment.connector or {}).get('host')
        for attachment in attachments(fresh(volume_id))
    ]
    return hosts.count(host) > 1


def _read(db: Any, volume_id: str) -> Record | None:
    rows = _rows(db, volume_id).filter(_Row.key.in_(record.KEYS))
    return record.parse({row.key: row.value for row in rows})


def _rows(db: Any, volume_id: str) -> Any:
    return db.query(_Row).filter_by(volume_id=volume_id, deleted=False)


def _row(db: Any, volume_id: str, key: str) -> Any:
    """Return the row of a key of a volume, None without one."""
    return _rows(db, volume_id).filter_by(key=key).first()


def _delete(
    db: Any, volume_id: str, keys: collections.abc.Iterable[str]
) -> None:
    _rows(db, volume_id).filter(_Row.key.in_(keys)).update(
        {'deleted': True, 'deleted_at': timeutils.utcnow()},
        synchronize_session=False,
    )


def _check(db: Any, volume_id: str, before: Record) -> None:
    if _read(db, volume_id) != before:
        raise _changed(volume_id, before)


def _changed(volume_id: str, before: Record) -> Changed:
    return Changed(
        f'the move of server {before.server} with volume {volume_id} is no '
        f'longer {before.phase}'
    )
