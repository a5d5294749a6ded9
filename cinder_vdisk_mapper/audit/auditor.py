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

A look takes a number of queries that does not grow with what is wrong. What
may be repaired on a disk is decided anew, by looking again at the disks,
Cinder's database and Placement, when nobody else can change the disk. Nova is
never asked then: it may be slow.
"""

import collections.abc
import dataclasses
import functools
from typing import Any

from cinder import context as cinder_context
from cinder.volume import configuration
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils

from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper import records as records_
from cinder_vdisk_mapper import vdisk_reservation
from cinder_vdisk_mapper.audit import comparison
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory

LOG = logging.getLogger(__name__)

_DRIVER = 'cinder_vdisk_mapper.driver.VDiskMapperDriver'

#: Returns what Nova says, given the consumers that have claimed disks.
AskNova = collections.abc.Callable[
    [collections.abc.Iterable[str]], comparison.Nova
]


@dataclasses.dataclass(frozen=True)
class Host:
    """The backends of this host that are ours, and what they work with."""

    backends: tuple[base.Backend, ...]
    placement: placement_client.PlacementClient
    records: records_.Records
    ask_nova: AskNova
    _by_disk: dict[str, base.Backend] = dataclasses.field(
        default_factory=dict, init=False
    )

    def findings(self) -> list[comparison.Finding]:
        """Return what does not agree, and still does not at a second look.

        What changes while it is looked at may look as if it did not agree.

        :raises PlacementError: Placement cannot be asked.
        """
        found = comparison.compare(self.look())
        if not found:
            return []
        again = set(comparison.compare(self.look()))
        return [finding for finding in found if finding in again]

    def look(self, nova: comparison.Nova | None = None) -> comparison.State:
        """Return the state of the host.

        :param nova: what Nova has said; None to ask it.
        :raises PlacementError: Placement cannot be asked.
        """
        records = self.records.of_host()
        disks = {
            disk.uuid: disk
            for backend in self.backends
            for disk in backend.disks()
        }
        known = {record.vdisk for record in records}
        records += self.records.others(
            vdisk.name
            for disk in disks.values()
            for vdisk in disk.vdisks
            if vdisk.name not in known and comparison.is_ours(vdisk.name)
        )
        away = {record.disk for record in records if record.disk} - set(disks)
        offers, strays = self._offers(disks)
        if nova is None:
            nova = self.ask_nova(
                {one for offer in offers.values() for one in offer.claims}
            )
        return comparison.State(
            records=tuple(dict.fromkeys(records)),
            disks=tuple(disks[uuid] for uuid in sorted(disks)),
            offers=offers,
            forgotten=frozenset(filter(self._forgotten, away)),
            strays=strays,
            nova=nova,
        )

    def repair(
        self, findings: collections.abc.Iterable[comparison.Finding]
    ) -> list[comparison.Finding]:
        """Repair what is still found; return what was repaired.

        What cannot be repaired is logged, and stays a finding.

        :raises PlacementError: Placement cannot be asked.
        """
        due = [one for one in findings if one.repair]
        if not due:
            return []
        nova = self.look().nova
        return [
            finding
            for disk in sorted({one.disk for one in due})
            for finding in self._repair(
                disk, [one for one in due if one.disk == disk], nova
            )
        ]

    def _repair(
        self,
        disk: str,
        findings: list[comparison.Finding],
        nova: comparison.Nova,
    ) -> list[comparison.Finding]:
        """Repair what is found on one disk, after one more look."""
        done = []
        with vdisk_reservation.lock(f'disk-{disk}'):
            state = self.look(nova)
            still = set(comparison.compare(state))
            due = [finding for finding in findings if finding in still]
            orphans = [one for one in due if one.kind == comparison.ORPHAN]
            for finding in due:
                if finding not in orphans and self._try(state, finding):
                    done.append(finding)
            self._publish(state, disk)
        # nothing can bring these back, and wiping them may take long
        gone = [one for one in orphans if self._try(state, one)]
        if gone:
            with vdisk_reservation.lock(f'disk-{disk}'):
                self._publish(state, disk)
        return done + gone

    def _try(
        self, state: comparison.State, finding: comparison.Finding
    ) -> bool:
        """Repair a finding; False, and the reason logged, if it cannot be."""
        if finding.repair == comparison.PUBLISH:
            # done for the whole disk
            return True
        act = {
            comparison.DELETE: self._delete,
            comparison.RECORD: self._record,
            comparison.EXTEND: self._extend,
            comparison.CLAIM: self._claim,
        }[finding.repair]
        try:
            return act(state, finding)
        except exception.DiskPlacerError as error:
            LOG.error(
                'Not repaired: %s, %s on disk %s: %s',
                finding.kind,
                finding.vdisk or finding.owner,
                finding.disk,
                error,
            )
            return False

    def _delete(
        self, state: comparison.State, finding: comparison.Finding
    ) -> bool:
        self._backend(finding.disk).delete(finding.disk, finding.vdisk)
        return True

    def _record(
        self, state: comparison.State, finding: comparison.Finding
    ) -> bool:
        return self.records.record(_find(state, finding), finding.disk)

    def _extend(
        self, state: comparison.State, finding: comparison.Finding
    ) -> bool:
        size_gb = _find(state, finding).size_gb
        backend = self._backend(finding.disk)
        # others may have been extended since the look
        disk = backend.disk(finding.disk)
        after = dataclasses.replace(
            disk,
            vdisks=tuple(
                dataclasses.replace(one, size_bytes=size_gb * GIB)
                if one.name == finding.vdisk
                else one
                for one in disk.vdisks
            ),
        )
        claims = self.placement.provider_allocations(disk.uuid)
        room_gb = inventory.figures(after, claims).room_gb
        if room_gb < 0:
            raise exception.DiskError(f'the disk lacks {-room_gb} GiB for it')
        backend.extend(disk.uuid, finding.vdisk, size_gb)
        return True

    def _claim(
        self, state: comparison.State, finding: comparison.Finding
    ) -> bool:
        """Claim for a server what its vdisks take on a disk."""
        had = state.offers[finding.disk].claims.get(finding.owner, {})
        for lack in comparison.unclaimed(state, finding.owner):
            if lack.disk == finding.disk:
                inventory.claim_held(
                    self.placement,
                    finding.disk,
                    finding.owner,
                    comparison.with_lack(had, lack),
                    functools.partial(self._disk, finding.disk),
                )
                return True
        return False

    def _publish(self, state: comparison.State, disk: str) -> None:
        if disk in state.offers:
            inventory.sync_disk(
                self.placement, disk, functools.partial(self._disk, disk)
            )

    def _disk(self, uuid: str) -> discover.Disk:
        return self._backend(uuid).disk(uuid)

    def _backend(self, uuid: str) -> base.Backend:
        if uuid not in self._by_disk:
            for backend in self.backends:
                for disk in backend.disks():
                    self._by_disk[disk.uuid] = backend
        return self._by_disk[uuid]

    def _forgotten(self, uuid: str) -> bool:
        try:
            return any(backend.forgotten(uuid) for backend in self.backends)
        except exception.DiskError:
            # another driver's word for where the volume is
            return True

    def _offers(
        self, disks: collections.abc.Iterable[str]
    ) -> tuple[dict[str, comparison.Offer], tuple[str, ...]]:
        """Return what Placement has of these disks, and of others here."""
        here = {
            uuid: provider
            for uuid in disks
            if (provider := self.placement.provider(uuid))
        }
        offers = {
            uuid: comparison.Offer(
                self.placement.inventories(uuid)[1],
                self.placement.provider_allocations(uuid),
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


def _find(
    state: comparison.State, finding: comparison.Finding
) -> comparison.Record:
    return next(
        record
        for record in state.records
        if record.vdisk == finding.vdisk and record.id == finding.owner
    )


def from_conf(config: cfg.ConfigOpts, stuck_after: int) -> Host:
    """Return this host as cinder.conf describes it.

    :param stuck_after: how long in seconds a volume may be worked on before
        that is a finding.
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
        tuple(backends.values()),
        placement_client.PlacementClient.from_conf(config),
        records_.Records(context, tuple(names), stuck_after),
        functools.partial(
            _ask_nova,
            context,
            {name.partition('@')[0] for name in names} | {config.host},
        ),
    )


def _ask_nova(
    context: Any,
    hosts: collections.abc.Iterable[str],
    consumers: collections.abc.Iterable[str],
) -> comparison.Nova:
    consumers = frozenset(consumers)
    try:
        found = nova_api.of_hosts(context, hosts)
        gone = consumers - found.keys()
        if gone:
            gone -= nova_api.living(context, hosts)
    except nova_api.NovaError as error:
        LOG.warning('Claims are not compared with servers: %s', error)
        return comparison.Nova()
    return comparison.Nova(
        tuple(
            (uuid, server.request)
            for uuid, server in sorted(found.items())
            if server and server.request
        ),
        gone,
    )
