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

"""Copies the disks of running servers by libvirt's block copy."""

import contextlib
import dataclasses
import os
import stat
import xml.etree.ElementTree  # noqa: S405
from collections.abc import Iterator
from typing import Any

from cinder_vdisk_mapper.moves import vdisk_steps
from nova_diskplacer import exception
from nova_diskplacer.host import libvirt_connection

_MIB = 1 << 20

# Settings of the driver of a disk that its copy keeps.
_KEPT = ('cache', 'discard', 'io')


@dataclasses.dataclass(frozen=True)
class DiskState:
    """A disk of a domain in libvirt's description.

    ``target`` is its name there, ``path`` that of its file or device.
    ``mirror`` is the path that it is copied to, '' for none, and ``ready``
    tells if QEMU writes everything to both. ``options`` are those of its
    driver.
    """

    target: str
    path: str
    mirror: str
    ready: bool
    options: dict[str, str]


def find_disk(text: str, volume_id: str) -> DiskState | None:
    """Return the disk of a volume in libvirt's description of a domain."""
    root = xml.etree.ElementTree.fromstring(text)  # noqa: S314
    for disk in root.iterfind('devices/disk'):
        if disk.findtext('serial') != volume_id:
            continue
        target, driver = disk.find('target'), disk.find('driver')
        mirror = disk.find('mirror')
        return DiskState(
            '' if target is None else target.get('dev', ''),
            _path(disk.find('source')),
            '' if mirror is None else _path(mirror.find('source')),
            mirror is not None and mirror.get('ready') == 'yes',
            {} if driver is None else dict(driver.attrib),
        )
    return None


def target_xml(path: str, is_block: bool, options: dict[str, str]) -> str:
    """Return the description of the disk to copy to.

    :param options: of the driver of the disk to copy.
    """
    kind, attribute = ('block', 'dev') if is_block else ('file', 'file')
    kept = {name: options[name] for name in _KEPT if name in options}
    disk = xml.etree.ElementTree.Element('disk', type=kind, device='disk')
    xml.etree.ElementTree.SubElement(
        disk, 'driver', {**kept, 'name': 'qemu', 'type': 'raw'}
    )
    xml.etree.ElementTree.SubElement(disk, 'source', {attribute: path})
    return xml.etree.ElementTree.tostring(disk, encoding='unicode')


def _path(source: xml.etree.ElementTree.Element | None) -> str:
    if source is None:
        return ''
    return source.get('file') or source.get('dev') or ''


@dataclasses.dataclass(frozen=True)
class Guests:
    """The running servers of this host.

    :param uri: of libvirt.
    :param rate: MiB/s of a copy, 0 for no limit.
    """

    uri: str
    rate: int

    def find(self, server: str, volume_id: str) -> 'Guest | None':
        """Return the disk of a volume, None if the server does not run.

        :raises HypervisorError: libvirt does not answer.
        :raises DiskError: the server has a saved state, which has paths of
            its own, or runs without the volume.
        """
        with self._domain(server) as domain:
            if domain is None:
                return None
            if domain.hasManagedSaveImage():
                raise exception.DiskError(
                    f'server {server} is suspended: resume it first'
                )
            if not domain.isActive():
                return None
            if find_disk(domain.XMLDesc(), volume_id) is None:
                raise exception.DiskError(
                    f'server {server} runs without the volume'
                )
        return Guest(self, server, volume_id)

    @contextlib.contextmanager
    def _domain(self, server: str) -> Iterator[Any]:
        """Yield the domain of a server, None if there is none."""
        libvirt = libvirt_connection.import_libvirt()
        if libvirt is None:
            raise exception.HypervisorError(
                'libvirt-python is not installed: vdisks of running servers '
                'cannot be moved'
            )
        with libvirt_connection.connect(
            self.uri, f'copy disks of server {server}', read_only=False
        ) as connection:
            try:
                domain = connection.lookupByUUIDString(server)
            except libvirt.libvirtError as error:
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise
                domain = None
            yield domain

    @contextlib.contextmanager
    def disk(
        self, server: str, volume_id: str
    ) -> Iterator[tuple[Any, DiskState | None]]:
        """Yield the domain and the disk, None if it does not run with it."""
        with self._domain(server) as domain:
            state = None
            if domain is not None and domain.isActive():
                state = find_disk(domain.XMLDesc(), volume_id)
            yield domain, state


@dataclasses.dataclass(frozen=True)
class Guest:
    """The disk of a running server that a volume is."""

    guests: Guests
    server: str
    volume_id: str

    def job(self) -> vdisk_steps.Job | None:
        """Return the block copy under way, None if there is none."""
        with self.guests.disk(self.server, self.volume_id) as (domain, disk):
            if disk is None or not disk.mirror:
                return None
            info = domain.blockJobInfo(disk.target)
            return vdisk_steps.Job(
                disk.mirror,
                info.get('cur', 0),
                info.get('end', 0),
                disk.ready,
            )

    def start(self, path: str) -> None:
        """Begin a block copy to an existing file or device.

        From when it is ready on, QEMU completes a write of the server only
        when it is in both places.
        """
        libvirt = libvirt_connection.import_libvirt()
        with self.guests.disk(self.server, self.volume_id) as (domain, disk):
            if disk is None:
                raise exception.DiskError('its server was stopped')
            is_block = stat.S_ISBLK(os.stat(path).st_mode)
            parameters = (
                {
                    libvirt.VIR_DOMAIN_BLOCK_COPY_BANDWIDTH: self.guests.rate
                    * _MIB
                }
                if self.guests.rate
                else {}
            )
            domain.blockCopy(
                disk.target,
                target_xml(path, is_block, disk.options),
                parameters,
                libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT
                | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
                | libvirt.VIR_DOMAIN_BLOCK_COPY_SYNCHRONOUS_WRITES,
            )

    def pivot(self) -> None:
        """End a copy that is ready: QEMU uses its target alone."""
        libvirt = libvirt_connection.import_libvirt()
        self._end(libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)

    def abort(self) -> bool:
        """End a copy: QEMU uses its source alone; False if there is none."""
        return self._end(0)

    def _end(self, flags: int) -> bool:
        with self.guests.disk(self.server, self.volume_id) as (domain, disk):
            if disk is None or not disk.mirror:
                return False
            domain.blockJobAbort(disk.target, flags)
            return True
