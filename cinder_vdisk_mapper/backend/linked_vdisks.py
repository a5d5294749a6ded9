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

"""The links to vdisks, and the vdisks of other hosts that they lead to."""

import abc
import collections.abc
from typing import Any
from typing import TypeVar

from oslo_privsep import daemon

from cinder_vdisk_mapper import privsep_openers
from nova_diskplacer import exception
from nova_diskplacer.disks import links
from nova_diskplacer.disks import move_records
from nova_diskplacer.host import files

T = TypeVar('T')


class LinkedVDisks(abc.ABC):
    """The links to the vdisks below a disk root, and records of their moves.

    Each method that changes one runs an operation in the privileged helper
    process, as :meth:`_run` does.
    """

    #: whether a device can be made for a vdisk
    makes_devices = False

    disk_root: str

    @abc.abstractmethod
    def _run(self, operation: str, *arguments: Any) -> Any:
        """Run an operation in the helper process of this backend."""

    def link_path(self, name: str) -> str:
        """Return the path of the link to a vdisk, which servers are given."""
        return links.path(self.disk_root, name)

    def linked_disk(self, name: str) -> str | None:
        """Return the disk that the link to a vdisk leads to, if any.

        :raises DiskError: that is not known, as :func:`links.linked_disk`.
        """
        return self._read(links.linked_disk, 'linked_disk', name)

    def links(self) -> dict[str, str | None]:
        """Return the disk that each link leads to, by the vdisk's name.

        The disk is None where it is not known.

        :raises DiskError: the links cannot be listed.
        """
        return self._read(links.all_links, 'all_links')

    def link(
        self, disk: str, name: str, to_device: bool | None = None
    ) -> None:
        """Make the link to a vdisk lead to a disk, in one step.

        :param to_device: whether to a block device made for the vdisk, where
            it is none itself; None to keep what it was attached as.
        """
        if not self.makes_devices:
            to_device = False
        self._run('link', disk, name, to_device)

    def is_linked_to_device(self, name: str) -> bool:
        """Return whether a link leads to a device that is made for a vdisk.

        :raises DiskError: the link cannot be read.
        """
        return False

    def park_link(self, name: str) -> bool:
        """Make the link to a vdisk resolve in its QEMU process only.

        :returns: whether it does, see :func:`parking.park`.
        """
        return bool(self._run('park', name))

    def unpark_link(self, name: str) -> None:
        """Make the link to a vdisk resolve in every process."""
        if self.is_parked(name):
            self._run('unpark', name)

    def is_parked(self, name: str) -> bool:
        """Return whether the link to a vdisk is parked.

        :raises DiskError: the link cannot be read.
        """
        return self._read(links.is_parked, 'is_parked', name)

    def link_remote(self, name: str) -> None:
        """Make the link to a vdisk lead to that of another host."""
        self._run('link_remote', name)

    def remote_device(self, name: str) -> str | None:
        """Return the device of the vdisk of another host, None without one.

        It may be there no more, or not yet.
        """
        return self._read(links.remote_device, 'remote_device', name)

    def remote_in_use(self, name: str) -> bool:
        """Return whether a process has the vdisk of another host open.

        :raises DiskError: this is not known.
        """
        try:
            return bool(privsep_openers.remote_in_use(self.disk_root, name))
        except daemon.FailedToDropPrivileges as error:
            raise exception.DiskError(
                f'it is not known which processes have {name} open, as the '
                f'helper [{privsep_openers.context.cfg_section}] does not '
                f'start ({error}): see the filter vdisk-mapper.filters of '
                'rootwrap'
            ) from error

    def add_remote(self, name: str, portal: str, iqn: str, lun: int) -> None:
        """Link to the device of the vdisk of another host.

        :raises DiskError: the target is invalid or that of another vdisk, or
            the link cannot be made.
        """
        self._run('add_remote', name, portal, iqn, lun)

    def admit(self, iqn: str, initiator: str, user: str, secret: str) -> None:
        """Let an initiator alone log in to a target of this host by CHAP.

        :raises DiskError: there is no such target, or a name is invalid.
        """
        self._run('admit', iqn, initiator, user, secret)

    def remove_remote(self, name: str) -> None:
        """Remove the link to the device of another host, if there is one."""
        self._run('remove_remote', name)

    def remotes(self) -> list[str]:
        """Return the names of the vdisks of other hosts."""
        return self._read(links.remotes, 'remotes')

    def unlink(self, name: str) -> None:
        """Remove the link to a vdisk, and the record of its move, if any."""
        if files.exists(self.link_path(name)) or self.recorded_move(name):
            self._run('unlink', name)

    def recorded_move(self, name: str) -> move_records.Record | None:
        """Return the record of a vdisk's move, None if there is none."""
        record = self._read(move_records.read, 'recorded_move', name)
        return move_records.Record(*record) if record else None

    def _read(
        self,
        read: collections.abc.Callable[..., T],
        operation: str,
        *arguments: str,
    ) -> T:
        """Read below the disk root, by the root helper where only root may."""
        try:
            return read(self.disk_root, *arguments)
        except exception.DiskError as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
        result: T = self._run(operation, *arguments)
        return result
