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

"""Exports the vdisks of volumes whose servers move to another host."""

import collections.abc
import contextlib
import dataclasses
import functools
from typing import Any

from cinder import context as cinder_context

from cinder_vdisk_mapper.attach import export
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api.types import Connector
from cinder_vdisk_mapper.cinder_api.types import ModelUpdate
from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.server_moves import checks
from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import naming
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer import exception


@dataclasses.dataclass
class MoveExport:
    """The exports of the vdisks of a backend.

    :param names: of this host.
    :param make_exporter: returns what exports vdisks.
    """

    names: frozenset[str]
    operations: Operations
    make_exporter: collections.abc.Callable[[], export.Exporter]

    @functools.cached_property
    def exporter(self) -> export.Exporter:
        """Exports vdisks; made for the first move, as it runs commands."""
        return self.make_exporter()

    @property
    def _backend(self) -> base.Backend:
        return self.operations.backend

    def create(self, context: Any, volume: Volume) -> ModelUpdate:
        """Export a vdisk; returns the changes of the volume, which are saved.

        A user may attach the volume while Nova does: what one of them has not
        completed yet is no rest of a killed run for the other.

        :raises BindingError: the move was aborted meanwhile.
        """
        self._backend.check_location(
            naming.location(volume), naming.volume(volume)
        )
        vdisk = self.operations.of(volume)
        with locks.hold(f'export-{volume.id}'):
            recorded = store.read(volume.id)
            if recorded is None or recorded.phase == record.ABORTING:
                raise checks.refused(volume, 'its move was aborted')
            if self._backend.makes_devices:
                vdisk.stable_path(volume, to_device=True)
            vdisk.activate(volume)
            volume.refresh()
            update: ModelUpdate = self.exporter.create_for_move(
                context, volume, self.path(volume)
            )
            for name, value in update.items():
                setattr(volume, name, value)
            volume.save()
        return update

    def admit(self, volume: Volume, connector: Connector) -> None:
        """Let the initiator of the destination log in, and no other one."""
        target = remote.target_of(volume)
        self._backend.admit(
            target.iqn, connector['initiator'], target.user, target.secret
        )

    def remove(self, volume: Volume) -> None:
        """Remove an export, and the device for it; its lock is held.

        :raises DiskPlacerError: the export cannot be removed.
        """
        volume.refresh()
        context = cinder_context.get_admin_context()
        self.exporter.remove(context, volume, self.path(volume))
        if not self.names.intersection(store.connectors(volume.id)):
            with contextlib.suppress(exception.DiskError):
                # of a file, which nobody uses here
                self.operations.of(volume).deactivate()

    def path(self, volume: Volume) -> str:
        """Return the path of the device that is exported."""
        return self._backend.attached_path(
            str(naming.location(volume)), naming.volume(volume)
        )
