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

"""Reads volumes and snapshots of a host from Cinder's database.

Two queries read up to 500 of them.
"""

import collections
import collections.abc
import dataclasses
import json
from typing import Any

import sqlalchemy as sa
import sqlalchemy.orm as sa_orm
from oslo_utils import timeutils
from oslo_utils import uuidutils

from cinder_vdisk_mapper.cinder_api.releases import db_api
from cinder_vdisk_mapper.cinder_api.releases import models
from cinder_vdisk_mapper.cinder_api.types import is_migrating
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.record import Record

Volume = models.Volume
Snapshot = models.Snapshot

# Statuses of volumes and snapshots that no operation is working on.
SETTLED = frozenset(
    (
        'available',
        'awaiting-transfer',
        'error',
        'error_backing-up',
        'error_deleting',
        'error_extending',
        'error_managing',
        'error_restoring',
        'in-use',
    )
)
# Statuses of a blank volume before a server has it.
_BEFORE_ATTACHED = frozenset(('creating', 'reserved', 'attaching', 'error'))

# Ids in one query: databases limit the number of its parameters.
_BATCH = 500


@dataclasses.dataclass
class Records:
    """Reads volumes and snapshots from Cinder's database.

    :param context: an administrator's.
    :param backends: the backends of this host, as ``host@backend``.
    :param stuck_after: see :class:`Record`; in seconds.
    """

    context: Any
    backends: tuple[str, ...]
    stuck_after: int

    def of_host(self) -> list[Record]:
        """Return the existing volumes and snapshots of the backends."""
        here = sa.or_(
            Volume.host.in_(self.backends),
            *(
                Volume.host.startswith(f'{name}#', autoescape=True)
                for name in self.backends
            ),
        )
        return [
            *self._volumes(here, sa.not_(Volume.deleted)),
            *self._snapshots(here, sa.not_(Snapshot.deleted)),
        ]

    def others(self, vdisks: collections.abc.Iterable[str]) -> list[Record]:
        """Return the volumes and snapshots that may own vdisks.

        They may be on any host, and deleted.

        :param vdisks: names of the vdisks.
        """
        ids_of = collections.defaultdict(set)
        for name in vdisks:
            kind, _, id_ = name.partition('-')
            ids_of[kind].add(id_)
        records = []
        for ids in _batches(ids_of['volume']):
            records += self._volumes(
                sa.or_(Volume.id.in_(ids), Volume._name_id.in_(ids))
            )
        for ids in _batches(ids_of['snapshot']):
            records += self._snapshots(Snapshot.id.in_(ids))
        return list(dict.fromkeys(records))

    def record(self, record: Record, disk: str) -> bool:
        """Write a disk to the database.

        :returns: False, and nothing is written, if the row has changed.
        """
        model: Any = Snapshot if record.kind == 'snapshot' else Volume
        column = model.provider_location
        with db_api.main_context_manager.writer.using(self.context) as db:
            changed = db.execute(
                sa.update(model)
                .where(
                    model.id == record.id,
                    model.status == record.status,
                    column == record.disk
                    if record.disk
                    else sa.or_(column.is_(None), column == ''),
                )
                .values(provider_location=disk, provider_id=disk)
                .execution_options(synchronize_session=False)
            )
            return bool(changed.rowcount)

    def _volumes(self, *conditions: Any) -> list[Record]:
        with db_api.main_context_manager.reader.using(self.context) as db:
            rows = (
                db.query(Volume)
                .options(sa_orm.selectinload(Volume.volume_attachment))
                .filter(*conditions)
                .all()
            )
            return [
                self._record(
                    row,
                    f'volume-{row.name_id}',
                    row.size,
                    row.host,
                    not is_migrating(row.migration_status),
                )
                for row in rows
            ]

    def _snapshots(self, *conditions: Any) -> list[Record]:
        with db_api.main_context_manager.reader.using(self.context) as db:
            rows = (
                db.query(Snapshot, Volume.host)
                .outerjoin(Volume, Volume.id == Snapshot.volume_id)
                .filter(*conditions)
                .all()
            )
            return [
                self._record(
                    row, f'snapshot-{row.id}', row.volume_size, host, True
                )
                for row, host in rows
            ]

    def _record(
        self, row: Any, vdisk: str, size_gb: int, host: str, alone: bool
    ) -> Record:
        """Return a row as a record; ``alone`` if it is not being migrated."""
        settled = alone and row.status in SETTLED
        return Record(
            id=row.id,
            vdisk=vdisk,
            disk=row.provider_location or None,
            size_gb=size_gb,
            status=row.status,
            here=(host or '').partition('#')[0] in self.backends,
            settled=settled,
            stuck=not (settled or row.deleted)
            and timeutils.is_older_than(
                row.updated_at or row.created_at, self.stuck_after
            ),
            deleted=bool(row.deleted),
            blank_of=_blank_of(row) if isinstance(row, Volume) else None,
            connections=_connections(row)
            if isinstance(row, Volume)
            else frozenset(),
        )


def _connections(row: Any) -> frozenset[str]:
    """Return the types of the connections that servers have to a volume."""
    return frozenset(
        json.loads(attachment.connection_info).get('driver_volume_type', '')
        for attachment in row.volume_attachment
        if attachment.attach_status != 'detached'
        and attachment.instance_uuid
        and attachment.connection_info
    )


def _blank_of(row: Any) -> str | None:
    """Return the server for whose boot a volume waits, None for no such one.

    A volume that is available and bound holds data that its owner keeps.
    """
    waits = row.status in _BEFORE_ATTACHED or (
        row.status == 'available' and not row.provider_location
    )
    server = naming.server_of_blank_volume(row.display_name)
    if row.deleted or not waits or not uuidutils.is_uuid_like(server):
        return None
    users = {attachment.instance_uuid for attachment in row.volume_attachment}
    return server if users <= {server, None} else None


def managed(context: Any, vdisks: collections.abc.Iterable[str]) -> set[str]:
    """Return the names of vdisks that are volumes or snapshots of Cinder."""
    vdisks = set(vdisks)
    return vdisks & {
        name
        for record in Records(context, (), 0).others(vdisks)
        if not record.deleted
        # the vdisk of a migrated volume has another id in its name
        for name in (record.vdisk, f'{record.kind}-{record.id}')
    }


def _batches(
    ids: collections.abc.Iterable[str],
) -> collections.abc.Iterator[list[str]]:
    ordered = sorted(ids)
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]
