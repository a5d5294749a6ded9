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

"""Looks at a host for ``diskplacer-manage disk audit``, and repairs.

Whether something may be repaired is decided anew, by looking again at
everything, when nobody else can change the disk.
"""

import collections.abc
import dataclasses
import datetime
import functools
from typing import Any

from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import objects
from cinder.volume import configuration
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils
from oslo_utils import timeutils

from cinder_vdisk_mapper import audit
from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper import room
from cinder_vdisk_mapper import servers
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer import placement as placement_
from nova_diskplacer import publish
from nova_diskplacer.disks import vdisks

LOG = logging.getLogger(__name__)

# What Cinder leaves a volume or snapshot in: nobody is working on it.
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
_DRIVER = 'cinder_vdisk_mapper.driver.VDiskMapperDriver'
_MIGRATED = frozenset((None, '', 'none', 'success', 'error'))

#: Returns which consumers of Placement are servers or migrations of Nova.
Living = collections.abc.Callable[
    [collections.abc.Iterable[str]], frozenset[str]
]


@dataclasses.dataclass(frozen=True)
class Host:
    """The backends of this host that are ours, and what they work with.

    ``names`` are theirs in Cinder, as ``host@backend``. ``stuck_after`` is
    how long in seconds a volume may be worked on before that is a finding.
    """

    names: tuple[str, ...]
    backends: tuple[base.Backend, ...]
    placement: placement_.PlacementClient
    context: Any
    living: Living
    stuck_after: int

    def findings(self) -> list[audit.Finding]:
        """Return what does not agree, and still does not at a second look.

        What changes while it is looked at may look as if it did not agree.
        """
        found = audit.compare(self.look())
        if not found:
            return []
        again = set(audit.compare(self.look()))
        return [finding for finding in found if finding in again]

    def look(self) -> audit.State:
        """Return the state of the host.

        :raises PlacementError: Placement cannot be asked.
        """
        records = list(self._records())
        disks = {
            disk.uuid: disk
            for backend in self.backends
            for disk in backend.disks()
        }
        known = {record.vdisk for record in records}
        for disk in disks.values():
            for vdisk in disk.vdisks:
                if vdisk.name not in known and audit.is_ours(vdisk.name):
                    records += self._others(vdisk.name)
                    known.add(vdisk.name)
        away = {record.disk for record in records if record.disk} - set(disks)
        providers, strays = self._offers(disks)
        return audit.State(
            records=tuple(dict.fromkeys(records)),
            disks=tuple(disks[uuid] for uuid in sorted(disks)),
            offers=providers,
            forgotten=frozenset(filter(self._forgotten, away)),
            strays=strays,
        )

    def repair(self, finding: audit.Finding) -> bool:
        """Repair a finding if it is still one; True if that was done.

        :raises DiskPlacerError: the disk or Placement refuses.
        """
        with room.lock(f'disk-{finding.disk}'):
            state = self.look()
            if finding not in audit.compare(state):
                return False
            if finding.kind != audit.ORPHAN:
                act = {
                    audit.DELETE: self._delete,
                    audit.RECORD: self._record,
                    audit.EXTEND: self._extend,
                    audit.PUBLISH: self._publish,
                }[finding.repair]
                return act(state, finding)
        # nothing can bring it back, and wiping it may take long
        return self._delete(state, finding)

    def _delete(self, state: audit.State, finding: audit.Finding) -> bool:
        self._backend(finding.disk).delete(finding.disk, finding.vdisk)
        return self._publish(state, finding)

    def _record(self, state: audit.State, finding: audit.Finding) -> bool:
        record = _find(state, finding)
        kind = objects.Volume
        if record.kind == 'snapshot':
            kind = objects.Snapshot
        found = kind.get_by_id(self.context, record.id)
        return bool(
            found.conditional_update(
                {'provider_location': finding.disk},
                {
                    'provider_location': record.disk,
                    'status': record.status,
                },
            )
        )

    def _extend(self, state: audit.State, finding: audit.Finding) -> bool:
        size_gb = _find(state, finding).size_gb
        disk = next(one for one in state.disks if one.uuid == finding.disk)
        after = dataclasses.replace(
            disk,
            vdisks=tuple(
                dataclasses.replace(one, size_bytes=size_gb * vdisks.GIB)
                if one.name == finding.vdisk
                else one
                for one in disk.vdisks
            ),
        )
        claims = self.placement.provider_allocations(disk.uuid)
        if publish.figures(after, claims).room_gb < 0:
            return False
        self._backend(disk.uuid).extend(disk.uuid, finding.vdisk, size_gb)
        return self._publish(state, finding)

    def _publish(self, state: audit.State, finding: audit.Finding) -> bool:
        if finding.disk in state.offers:
            publish.sync_disk(
                self.placement,
                finding.disk,
                lambda: self._backend(finding.disk).disk(finding.disk),
            )
        return True

    def _backend(self, uuid: str) -> base.Backend:
        return next(
            backend
            for backend in self.backends
            if any(disk.uuid == uuid for disk in backend.disks())
        )

    def _forgotten(self, uuid: str) -> bool:
        try:
            return all(backend.forgotten(uuid) for backend in self.backends)
        except exception.DiskError:
            # another driver's word for where the volume is
            return True

    def _records(self) -> collections.abc.Iterator[audit.Record]:
        """Return the living volumes and snapshots of this host."""
        for name in self.names:
            for row in objects.VolumeList.get_all_by_host(self.context, name):
                yield self._volume(row)
            for row in objects.SnapshotList.get_all(
                self.context, {'host': name}
            ):
                yield self._snapshot(row, here=True)

    def _others(self, vdisk: str) -> list[audit.Record]:
        """Return what else the database has, deleted or not, of a vdisk."""
        kind, _, uuid = vdisk.partition('-')
        context = self.context.elevated(read_deleted='yes')
        if kind == 'snapshot':
            return [
                self._snapshot(row, self._volume_here(row.volume_id))
                for row in _by_id(objects.Snapshot, context, uuid)
            ]
        renamed = objects.VolumeList.get_all(
            context, filters={'_name_id': uuid}
        )
        return [
            self._volume(row)
            for row in (*_by_id(objects.Volume, context, uuid), *renamed)
        ]

    def _volume(self, row: Any) -> audit.Record:
        settled = row.status in SETTLED and row.migration_status in _MIGRATED
        return audit.Record(
            id=row.id,
            vdisk=f'volume-{row.name_id}',
            disk=row.provider_location or None,
            size_gb=row.size,
            status=row.status,
            here=self._here(row.host),
            settled=settled,
            stuck=not settled and self._stuck(row),
            deleted=bool(row.deleted),
        )

    def _snapshot(self, row: Any, here: bool) -> audit.Record:
        settled = row.status in SETTLED
        return audit.Record(
            id=row.id,
            vdisk=f'snapshot-{row.id}',
            disk=row.provider_location or None,
            size_gb=row.volume_size,
            status=row.status,
            here=here,
            settled=settled,
            stuck=not settled and self._stuck(row),
            deleted=bool(row.deleted),
        )

    def _volume_here(self, uuid: str) -> bool:
        context = self.context.elevated(read_deleted='yes')
        found = _by_id(objects.Volume, context, uuid)
        return any(self._here(row.host) for row in found)

    def _here(self, host: str | None) -> bool:
        return (host or '').partition('#')[0] in self.names

    def _stuck(self, row: Any) -> bool:
        since = row.updated_at or row.created_at
        age = timeutils.utcnow(with_timezone=True) - since
        return bool(age > datetime.timedelta(seconds=self.stuck_after))

    def _offers(
        self, disks: collections.abc.Iterable[str]
    ) -> tuple[dict[str, audit.Offer], tuple[str, ...]]:
        """Return what Placement has of these disks, and of others here."""
        here = {
            uuid: provider
            for uuid in disks
            if (provider := self.placement.provider(uuid))
        }
        claims = {
            uuid: self.placement.provider_allocations(uuid) for uuid in here
        }
        consumers = {one for claimed in claims.values() for one in claimed}
        gone = frozenset(consumers) - self.living(consumers)
        offers = {
            uuid: audit.Offer(
                self.placement.inventories(uuid)[1],
                claims[uuid],
                gone & claims[uuid].keys(),
            )
            for uuid in here
        }
        strays = (
            one.uuid
            for root in {one.root for one in here.values()}
            for one in self.placement.disks(root)
            if one.uuid not in here
            and not any(b.has_entry(one.uuid) for b in self.backends)
        )
        return offers, tuple(sorted(strays))


def _find(state: audit.State, finding: audit.Finding) -> audit.Record:
    return next(
        record
        for record in state.records
        if record.vdisk == finding.vdisk and record.id == finding.owner
    )


def _by_id(kind: Any, context: Any, uuid: str) -> list[Any]:
    try:
        return [kind.get_by_id(context, uuid)]
    except cinder_exc.NotFound:
        return []


def from_conf(config: cfg.ConfigOpts, stuck_after: int) -> Host:
    """Return this host as cinder.conf describes it.

    :param stuck_after: see :class:`Host`.
    :raises DiskPlacerError: cinder.conf has no backend of ours, or lacks
        what these work with.
    """
    if not config.oslo_concurrency.lock_path:
        raise exception.DiskPlacerError(
            '[oslo_concurrency] lock_path of cinder.conf is not set; it must '
            'be the one of cinder-volume'
        )
    locks.make_directory(config.state_path)
    # cannot be imported before the caller has registered Cinder's objects
    manager = importutils.import_module('cinder.volume.manager')
    names, backends = [], {}
    for section in config.enabled_backends or ():
        options = configuration.Configuration(
            manager.volume_backend_opts, config_group=section
        )
        if options.volume_driver != _DRIVER:
            continue
        options.append_config_values(conf.OPTS)
        config.register_opt(cfg.StrOpt('backend_host'), group=section)
        host = config[section].backend_host or config.host
        names.append(f'{host}@{section}')
        key = options.vdisk_backend, options.vdisk_disk_root
        if key not in backends:
            backends[key] = core.load_backend(options)
    if not names:
        raise exception.DiskPlacerError(
            'no section of [DEFAULT] enabled_backends='
            f'{config.enabled_backends} of cinder.conf has volume_driver = '
            f'{_DRIVER}'
        )
    context = cinder_context.get_admin_context()
    return Host(
        tuple(names),
        tuple(backends.values()),
        placement_.PlacementClient.from_conf(config),
        context,
        functools.partial(_living, context),
        stuck_after,
    )


def _living(
    context: Any, consumers: collections.abc.Iterable[str]
) -> frozenset[str]:
    try:
        return servers.living(context, consumers)
    except servers.NovaError as error:
        LOG.warning('Claims are not compared with servers: %s', error)
        return frozenset(consumers)
