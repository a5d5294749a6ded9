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

"""Audits a host for ``diskplacer-manage disk audit``, and repairs.

The number of queries does not grow with the number of findings. Before a disk
is repaired, the disks, Cinder's database and Placement are read again while
the disk is locked. Nova is not asked again then, because it may be slow.
"""

import collections.abc
import contextlib
import dataclasses

from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper.audit import claim_checks
from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import host_reader
from cinder_vdisk_mapper.audit import link_checks
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.audit import volume_checks
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.vdisks import linking
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.operations import VDiskOperations
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer import exception
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.placement import inventory

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Auditor:
    """Audits the VDisk Mapper backends of this host."""

    reader: host_reader.HostReader
    _by_disk: dict[str, base.Backend] = dataclasses.field(
        default_factory=dict, init=False
    )

    def audit(self) -> list[findings.Finding]:
        """Return the findings of two subsequent comparisons.

        A single comparison may see a change that is under way.

        :raises PlacementError: Placement cannot be asked.
        """
        differences = compare(self.reader.read())
        if not differences:
            return []
        again = set(compare(self.reader.read()))
        return [finding for finding in differences if finding in again]

    def repair(
        self, reported: collections.abc.Iterable[findings.Finding]
    ) -> list[findings.Finding]:
        """Repair findings that still hold; return the repaired ones.

        A failed repair is logged. Locks that killed processes left are
        removed as well.

        :raises PlacementError: Placement cannot be asked.
        """
        locks.sweep()
        due = [finding for finding in reported if finding.repair]
        if not due:
            return []
        nova = self.reader.read().nova
        moved = [
            finding for finding in due if finding.repair == findings.FOLLOW
        ]
        due = [finding for finding in due if finding not in moved]
        return self._follow(moved, nova) + [
            finding
            for disk in sorted({finding.disk for finding in due})
            for finding in self._repair(
                disk,
                [finding for finding in due if finding.disk == disk],
                nova,
            )
        ]

    def _follow(
        self, reported: list[findings.Finding], nova: state.Nova
    ) -> list[findings.Finding]:
        """Record where the links of moved volumes lead.

        Volumes that another process works on are left to it.
        """
        done: list[findings.Finding] = []
        with contextlib.ExitStack() as stack:
            free = []
            for finding in reported:
                try:
                    stack.enter_context(
                        locks.hold(f'volume-{finding.owner}', wait=False)
                    )
                except exception.DiskPlacerError as error:
                    LOG.error('Not repaired: %s: %s', finding.message, error)
                else:
                    free.append(finding)
            if not free:
                return done
            host = self.reader.read(nova)
            still = set(compare(host))
            record = self.reader.records.record
            for finding in free:
                linked = host.links.get(finding.vdisk)
                if (
                    linked
                    and finding in still
                    and record(_find(host, finding), linked)
                ):
                    done.append(finding)
        return done

    def _repair(
        self, disk: str, reported: list[findings.Finding], nova: state.Nova
    ) -> list[findings.Finding]:
        """Repair the findings on one disk that still hold."""
        done = []
        with locks.hold(f'disk-{disk}'):
            host = self.reader.read(nova)
            still = set(compare(host))
            due = [finding for finding in reported if finding in still]
            orphans = [
                orphan for orphan in due if orphan.kind == findings.ORPHAN
            ]
            for finding in due:
                if finding not in orphans and self._try(host, finding):
                    done.append(finding)
            self._publish(host, disk)
        # wiping orphans may take long and needs no lock: they stay orphans
        gone = [orphan for orphan in orphans if self._try(host, orphan)]
        if gone:
            with locks.hold(f'disk-{disk}'):
                self._publish(host, disk)
        return done + gone

    def _try(self, host: state.HostState, finding: findings.Finding) -> bool:
        """Repair a finding; log the error and return False if that fails."""
        disk, vdisk = finding.disk, finding.vdisk
        try:
            match finding.repair:
                case findings.DELETE:
                    self._operations(disk).backend.delete(disk, vdisk)
                case findings.RECORD:
                    records = self.reader.records
                    return records.record(_find(host, finding), disk)
                case findings.EXTEND:
                    record = _find(host, finding)
                    pieces = record.location.pieces_gb(record.size_gb)
                    self._extend(disk, vdisk, pieces.get(disk, record.size_gb))
                case findings.CLAIM:
                    inventory.ensure_claim(
                        self.reader.placement,
                        disk,
                        finding.owner,
                        claim_checks.extended_claim(host, finding.owner, disk),
                        lambda: self._operations(disk).backend.disk(disk),
                    )
                case findings.RELEASE:
                    inventory.release_claim(
                        self.reader.placement,
                        disk,
                        finding.owner,
                        lambda: self._operations(disk).backend.disk(disk),
                    )
                case findings.LINK:
                    self._link(host, finding)
                case findings.DETACH:
                    self._detach(finding)
                case findings.UNLINK:
                    for backend in self.reader.backends:
                        backend.unlink(vdisk)
                case findings.PUBLISH:
                    # _publish does this for the whole disk
                    pass
        except exception.DiskPlacerError as error:
            LOG.error(
                'Not repaired: %s, %s on disk %s: %s',
                finding.kind,
                vdisk or finding.owner,
                disk,
                error,
            )
            return False
        return True

    def _link(self, host: state.HostState, finding: findings.Finding) -> None:
        """Make the link of a volume, unless something moves it meanwhile."""
        backend = self._operations(finding.disk).backend
        with locks.hold(f'volume-{finding.owner}', wait=False):
            linked = backend.linked_disk(finding.vdisk)
            if linked != host.links.get(finding.vdisk):
                raise exception.DiskError(
                    f'its link leads to disk {linked} meanwhile'
                )
            backend.link(
                finding.disk,
                finding.vdisk,
                linking.expect_device(_find(host, finding).connections),
            )

    def _detach(self, finding: findings.Finding) -> None:
        """Remove the device of a vdisk, unless its link leads there by now."""
        disk, name = finding.disk, finding.vdisk
        backend = self._operations(disk).backend
        with contextlib.ExitStack() as stack:
            if finding.owner:
                lock = locks.hold(f'volume-{finding.owner}', wait=False)
                stack.enter_context(lock)
            if backend.linked_disk(
                name
            ) == disk and backend.is_linked_to_device(name):
                raise exception.DiskError('its link leads there meanwhile')
            backend.detach_device(disk, name)

    def _extend(self, uuid: str, name: str, size_gb: int) -> None:
        operations = self._operations(uuid)
        # other vdisks may have been extended in the meantime
        disk, vdisk = operations.backend.find_vdisk(uuid, name)
        after = dataclasses.replace(vdisk, size_bytes=size_gb * GIB)
        free_gb = operations.free_gb_with(disk, vdisk, after)
        if free_gb < 0:
            raise exception.DiskError(f'the disk lacks {-free_gb} GiB for it')
        operations.backend.extend(uuid, name, size_gb)

    def _publish(self, host: state.HostState, disk: str) -> None:
        if disk in host.providers:
            self._operations(disk).reserve(disk)

    def _operations(self, uuid: str) -> VDiskOperations:
        """Return the operations of the backend that has a disk."""
        if uuid not in self._by_disk:
            for backend in self.reader.backends:
                for disk in backend.disks():
                    self._by_disk[disk.uuid] = backend
        return VDiskOperations(self._by_disk[uuid], self.reader.placement)


def compare(host: state.HostState) -> list[findings.Finding]:
    """Compare Cinder's database, the disks, Placement and Nova.

    The checks do no I/O. A repair of a finding never loses data of a volume or
    snapshot.

    :returns: the findings, sorted.
    """
    differences = [
        *volume_checks.check_vdisks(host),
        *volume_checks.check_records(host),
        *volume_checks.check_blank_volumes(host),
        *claim_checks.check(host),
        *link_checks.check(host),
    ]
    return sorted(
        differences,
        key=lambda finding: (
            finding.kind,
            finding.disk,
            finding.vdisk,
            finding.owner,
        ),
    )


def _find(host: state.HostState, finding: findings.Finding) -> Record:
    return next(
        record
        for record in host.records
        if record.vdisk == finding.vdisk and record.id == finding.owner
    )


def from_conf(config: cfg.ConfigOpts, stuck_after: int) -> Auditor:
    """Return the auditor of the backends in cinder.conf.

    :param stuck_after: seconds after which an operation on a volume is stuck.
    :raises DiskPlacerError: as :func:`host_reader.from_conf`.
    """
    return Auditor(host_reader.from_conf(config, stuck_after))
