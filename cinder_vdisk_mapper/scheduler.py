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

"""VDiskLocalityFilter: puts a server's vdisks on the host of the server.

A vdisk must fit on one disk: the free space of several disks does not add up.
Of a striped vdisk, each piece must fit on one.
A ``filter_function`` cannot check that: Cinder's DriverFilter does not support
it for requests without a volume, such as those for groups.

The filter replaces Cinder's CapacityFilter, and acts like it for all other
backends. A backend does not report space that servers claim as free, but the
volumes of these servers may use it. Enable the filter in cinder.conf of the
schedulers::

    [DEFAULT]
    scheduler_default_filters = AvailabilityZoneFilter,CapabilitiesFilter,\
VDiskLocalityFilter
"""

import functools
from typing import Any
from typing import NamedTuple

from cinder.scheduler.filters import capacity_filter
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import uuidutils

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api import internals as cinder_internals
from cinder_vdisk_mapper.vdisks import naming
from nova_diskplacer import internals
from nova_diskplacer import nova_server
from nova_diskplacer.disks.location import leg_gb

CONF = cfg.CONF

LOG = logging.getLogger(__name__)

HINT = 'local_to_instance'

#: capabilities: size of the largest vdisk that one disk can take
FREE = 'vdisk_largest_free_gb'
UNCLAIMED = 'vdisk_largest_unclaimed_gb'

# In place of the host for volumes of no server.
ANYWHERE = '*'


class _Placed(NamedTuple):
    """Host of a server, and over how many disks its flavor stripes vdisks."""

    host: str | None
    stripe_disks: int = 1


_ANYWHERE = _Placed(ANYWHERE)


class VDiskLocalityFilter(capacity_filter.CapacityFilter):
    """Passes the vdisk backends of the host of the volume's server.

    A new volume must fit into the free space of one disk of the backend, and
    into its unclaimed space if it has no server. An existing volume fits where
    it is, whatever has become of its server. What is made of a snapshot or a
    volume goes to the disks of that, which the driver checks.

    The scheduler hint ``local_to_instance`` names the server, or the name that
    nova-compute gives to a blank volume, which counts until it is detached. A
    volume that nova-compute makes of an image has no name; it is on the host
    of the server that was created by the request whose ID Nova passes on.
    Backends without the capability ``vdisk_mapper`` are filtered by capacity
    only, and so are all backends if the request names no server. If the server
    of the hint does not exist, belongs to another project or has no host, no
    vdisk backend passes.
    """

    def __init__(self) -> None:
        super().__init__()
        internals.check(cinder_internals.SCHEDULER, cinder_internals.RELEASE)
        _check_filters()
        # Cinder makes a filter for each request: it asks Nova once
        self._placed: dict[str, _Placed] = {}

    def backend_passes(
        self, backend_state: Any, filter_properties: dict[str, Any]
    ) -> bool:
        """Return whether the backend may hold the requested volume."""
        if not backend_state.capabilities.get('vdisk_mapper'):
            return self._has_capacity(backend_state, filter_properties)
        # a request may have no properties of a volume
        spec = filter_properties.get('request_spec') or {}
        properties = spec.get('volume_properties') or {}
        if (
            _exists(properties)
            and properties.get('host') == backend_state.backend_id
        ):
            return self._has_capacity(backend_state, filter_properties)
        host, stripe_disks = self._placed_by(
            spec, properties, filter_properties
        )
        backend = volume_utils.extract_host(backend_state.backend_id, 'host')
        if host not in (ANYWHERE, backend):
            return False
        if _is_copy(spec, properties):
            # the driver checks the disks of the source
            return (
                host != ANYWHERE
                and _fits(backend_state, properties, FREE, stripe_disks)
            ) or self._has_capacity(backend_state, filter_properties)
        if host == ANYWHERE and _fits(backend_state, properties, UNCLAIMED):
            return self._has_capacity(backend_state, filter_properties)
        # the driver knows what is claimed now; the report may be old
        return host != ANYWHERE and _fits(
            backend_state, properties, FREE, stripe_disks
        )

    def _has_capacity(
        self, backend_state: Any, filter_properties: dict[str, Any]
    ) -> bool:
        return bool(super().backend_passes(backend_state, filter_properties))

    def _placed_by(
        self,
        spec: Any,
        properties: dict[str, Any],
        filter_properties: dict[str, Any],
    ) -> _Placed:
        """Return where the server of a volume is; ANYWHERE without one."""
        hint = (filter_properties.get('scheduler_hints') or {}).get(HINT)
        named = naming.server_of_blank_volume(properties.get('display_name'))
        # a volume keeps the name when it has left its server
        if _exists(properties) and not _is_attached(properties):
            named = None
        server_id = hint or named
        if not server_id:
            if not _is_of_boot(spec, properties):
                return _ANYWHERE
            return self._placed_by_request(filter_properties['context'])
        if not uuidutils.is_uuid_like(server_id):
            # the name of a volume may be anything, lines of a log too
            LOG.warning('%s=%r is not the UUID of a server', HINT, server_id)
            return _ANYWHERE if hint is None else _Placed(None)
        if server_id not in self._placed:
            context = filter_properties['context']
            project_id = context.project_id
            if _exists(properties):
                # an administrator's context has another project
                project_id = properties.get('project_id')
            self._placed[server_id] = self._find(
                context, server_id, project_id, hint is not None
            )
        return self._placed[server_id]

    def _placed_by_request(self, context: Any) -> _Placed:
        request_id = context.global_request_id
        if not request_id:
            return _ANYWHERE
        if request_id not in self._placed:
            self._placed[request_id] = self._find_by_request(
                context, request_id
            )
        return self._placed[request_id]

    @staticmethod
    def _find_by_request(context: Any, request_id: str) -> _Placed:
        try:
            hosts = nova_api.hosts_of_request(context, request_id)
        except nova_server.NovaError as error:
            LOG.error(
                'A volume may be on another host than its server: %s', error
            )
            return _ANYWHERE
        if len(hosts) > 1:
            LOG.warning(
                'A volume may be on another host than its server: request %s '
                'has created servers on %d hosts',
                request_id,
                len(hosts),
            )
        if len(hosts) != 1:
            return _ANYWHERE
        return _Placed(hosts.pop())

    @staticmethod
    def _find(
        context: Any, server_id: str, project_id: str | None, hinted: bool
    ) -> _Placed:
        try:
            server = nova_api.get(context, server_id)
        except nova_server.NovaError as error:
            LOG.error('No vdisk backend passes: %s', error)
            return _Placed(None)
        if server is None:
            # users may give a volume the name of a blank one
            LOG.warning('There is no server %s', server_id)
            return _Placed(None) if hinted else _ANYWHERE
        if server.project_id != project_id:
            LOG.warning(
                'No vdisk backend passes: server %s is not in project %s',
                server_id,
                project_id,
            )
            return _Placed(None)
        if server.host is None:
            LOG.warning(
                'No vdisk backend passes: server %s has no host', server_id
            )
        request = server.request
        return _Placed(server.host, request.stripe_disks if request else 1)


def _exists(properties: dict[str, Any]) -> bool:
    """Return whether a request is about a volume that exists."""
    return properties.get('status') not in (None, 'creating')


def _is_copy(spec: Any, properties: dict[str, Any]) -> bool:
    """Return whether something is made on the disks of volumes or snapshots.

    Of a group that is made of another one, the size is that of all volumes.
    """
    of_group = spec.get('group_id') and properties.get('status') is None
    return bool(
        spec.get('snapshot_id') or spec.get('source_volid') or of_group
    )


def _is_attached(properties: dict[str, Any]) -> bool:
    return bool(properties.get('attach_status') == 'attached')


def _is_of_boot(spec: Any, properties: dict[str, Any]) -> bool:
    """Return whether nova-compute may create a volume of an image.

    Cinder itself puts a volume of a snapshot beside the snapshot.
    """
    return (
        properties.get('status') == 'creating'
        and not properties.get('display_name')
        and bool(spec.get('image_id'))
    )


@functools.cache
def _check_filters() -> None:
    """Warn once if CapacityFilter is enabled beside this filter."""
    # the option is cinder-scheduler's own
    if 'CapacityFilter' in getattr(CONF, 'scheduler_default_filters', ()):
        LOG.warning(
            'Remove CapacityFilter from [DEFAULT] scheduler_default_filters: '
            'it rejects the volumes of servers that have claimed the last '
            'space of a host, and VDiskLocalityFilter replaces it'
        )


def _fits(
    backend_state: Any,
    properties: dict[str, Any],
    capability: str,
    stripe_disks: int = 1,
) -> bool:
    """Return whether a disk of a backend has the space for a volume.

    :param stripe_disks: over how many disks it is striped.
    """
    size_gb = properties.get('size')
    largest_gb = backend_state.capabilities.get(capability)
    if size_gb is None or largest_gb is None:
        return True
    return leg_gb(size_gb, stripe_disks) <= int(largest_gb)
