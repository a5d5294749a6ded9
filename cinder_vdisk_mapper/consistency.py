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

"""Consistency groups, the API that groups came after.

Cinder does for other groups what a driver leaves to it, but not for these. A
snapshot of one is a consistent group snapshot.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from cinder import exception as cinder_exc
from oslo_log import log as logging

from cinder_vdisk_mapper import groups

LOG = logging.getLogger(__name__)

_DELETED = 'deleted'
_ERROR = 'error_deleting'

Updates = list[dict[str, Any]]


class ConsistencyGroups(groups.Groups):
    """A consistency group is but its volumes."""

    def create_consistencygroup(
        self, context: Any, group: Any
    ) -> dict[str, Any]:
        """Do nothing: there are no volumes yet."""
        return {'status': 'available'}

    def update_consistencygroup(
        self,
        context: Any,
        group: Any,
        add_volumes: list[Any] | None = None,
        remove_volumes: list[Any] | None = None,
    ) -> tuple[None, None, None]:
        """Do nothing: Cinder knows what is in a group."""
        return None, None, None

    def delete_consistencygroup(
        self, context: Any, group: Any, volumes: Sequence[Any]
    ) -> tuple[dict[str, Any], Updates]:
        """Delete the volumes of a group."""
        return _delete_all(volumes, self.delete_volume)

    def delete_cgsnapshot(
        self, context: Any, cgsnapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[dict[str, Any], Updates]:
        """Delete the snapshots of a snapshot of a group."""
        return _delete_all(snapshots, self.delete_snapshot)

    def create_consistencygroup_from_src(
        self,
        context: Any,
        group: Any,
        volumes: Sequence[Any],
        cgsnapshot: Any = None,
        snapshots: Sequence[Any] | None = None,
        source_cg: Any = None,
        source_vols: Sequence[Any] | None = None,
    ) -> tuple[None, Updates]:
        """Copy snapshot by snapshot, or volume by volume.

        :raises VolumeDriverException: a copy has no room on the disk of its
            source, or that is not there.
        """
        copy, sources = self.create_cloned_volume, source_vols
        if snapshots:
            copy, sources = self.create_volume_from_snapshot, snapshots
        updates = [
            {'id': volume.id, **(copy(volume, source) or {})}
            for volume, source in zip(volumes, sources or (), strict=True)
        ]
        return None, updates


def _delete_all(
    found: Sequence[Any], delete: Callable[[Any], None]
) -> tuple[dict[str, Any], Updates]:
    """Delete as many as can be."""
    updates = []
    for one in found:
        status = _DELETED
        try:
            delete(one)
        except cinder_exc.VolumeDriverException as error:
            LOG.error('%s cannot be deleted: %s', one.id, error)
            status = _ERROR
        updates.append({'id': one.id, 'status': status})
    failed = any(update['status'] == _ERROR for update in updates)
    return {'status': _ERROR if failed else _DELETED}, updates
