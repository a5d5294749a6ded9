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

"""VDiskLocalityFilter: a server's vdisks are on the server's own host.

And on a disk that holds them: what is free on several disks is no room for
one vdisk. A ``filter_function`` cannot tell: Cinder's DriverFilter fails it
for every request that is not about a volume, such as those for groups.

It takes the place of Cinder's CapacityFilter, and does what that does for all
other backends: a backend does not report as free what servers claim, which
their own volumes may use all the same. Enable it in cinder.conf of the
schedulers::

    [DEFAULT]
    scheduler_default_filters = AvailabilityZoneFilter,CapabilitiesFilter,\
VDiskLocalityFilter
"""

import functools
from typing import Any

from cinder.scheduler.filters import capacity_filter
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import uuidutils

from cinder_vdisk_mapper import cinder_internals
from cinder_vdisk_mapper import nova_api
from nova_diskplacer import internals

CONF = cfg.CONF

LOG = logging.getLogger(__name__)

HINT = 'local_to_instance'

#: capabilities: the largest vdisk that one disk can take
FREE = 'vdisk_largest_free_gb'
UNCLAIMED = 'vdisk_largest_unclaimed_gb'

# What is known of the host of a volume that is for no server; not a host.
ANYWHERE = '*'


class VDiskLocalityFilter(capacity_filter.CapacityFilter):
    """Pass the vdisk backends of the host of the server that it is for.

    A new volume must fit one disk of the backend: for its own server what is
    free, for anybody else what is neither taken nor claimed. One that exists
    fits where it is.

    The server is known by the scheduler hint ``local_to_instance``, or by the
    name that nova-compute gives to a blank volume. Backends that do not
    report the capability ``vdisk_mapper`` are filtered by their capacity only,
    and so are all of them where a request names no server. Where the hint
    names no server, or the server is of another project or has no host, no
    vdisk backend passes.
    """

    def __init__(self) -> None:
        super().__init__()
        internals.check(cinder_internals.SCHEDULER, cinder_internals.RELEASE)
        _check_filters()
        # Cinder makes a filter for each request, so this asks Nova once.
        self._hosts: dict[str, str | None] = {}

    def backend_passes(
        self, backend_state: Any, filter_properties: dict[str, Any]
    ) -> bool:
        """Tell whether the backend may hold the requested volume."""
        if not backend_state.capabilities.get('vdisk_mapper'):
            return self._has_capacity(backend_state, filter_properties)
        properties = _properties(filter_properties)
        host = self._host_of(properties, filter_properties)
        backend = volume_utils.extract_host(backend_state.backend_id, 'host')
        if host not in (ANYWHERE, backend):
            return False
        if _is_here(backend_state, properties):
            return self._has_capacity(backend_state, filter_properties)
        if host == ANYWHERE:
            return _fits(
                backend_state, properties, UNCLAIMED
            ) and self._has_capacity(backend_state, filter_properties)
        return _fits(backend_state, properties, FREE)

    def _has_capacity(
        self, backend_state: Any, filter_properties: dict[str, Any]
    ) -> bool:
        return bool(super().backend_passes(backend_state, filter_properties))

    def _host_of(
        self, properties: dict[str, Any], filter_properties: dict[str, Any]
    ) -> str | None:
        """Return the host of the server that a volume is for."""
        hint = (filter_properties.get('scheduler_hints') or {}).get(HINT)
        server_id = hint or nova_api.of_blank_volume(
            properties.get('display_name')
        )
        if not server_id:
            return ANYWHERE
        if not uuidutils.is_uuid_like(server_id):
            LOG.warning('%s=%s is not the UUID of a server', HINT, server_id)
            return ANYWHERE if hint is None else None
        if server_id not in self._hosts:
            self._hosts[server_id] = self._host(
                filter_properties['context'], server_id, hint is not None
            )
        return self._hosts[server_id]

    @staticmethod
    def _host(context: Any, server_id: str, hinted: bool) -> str | None:
        try:
            server = nova_api.get(context, server_id)
        except nova_api.NovaError as error:
            LOG.error('No vdisk backend passes: %s', error)
            return None
        if server is None:
            # a volume may be named as if it were for a server
            LOG.warning('There is no server %s', server_id)
            return None if hinted else ANYWHERE
        if server.project_id != context.project_id:
            LOG.warning(
                'No vdisk backend passes: server %s is not of project %s',
                server_id,
                context.project_id,
            )
            return None
        if server.host is None:
            LOG.warning(
                'No vdisk backend passes: server %s has no host', server_id
            )
        return server.host


@functools.cache
def _check_filters() -> None:
    """Warn once about a filter that refuses what this one lets pass."""
    # the option is cinder-scheduler's own
    if 'CapacityFilter' in getattr(CONF, 'scheduler_default_filters', ()):
        LOG.warning(
            'Remove CapacityFilter from [DEFAULT] scheduler_default_filters: '
            'it refuses the volumes of servers that have claimed the last '
            'room of a host. VDiskLocalityFilter does its work'
        )


def _properties(filter_properties: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of the volume; a request may be about none."""
    spec = filter_properties.get('request_spec') or {}
    return dict(spec.get('volume_properties') or {})


def _is_here(backend_state: Any, properties: dict[str, Any]) -> bool:
    """Tell whether a request is about a volume that the backend has."""
    return bool(
        properties.get('status') != 'creating'
        and properties.get('host') == backend_state.backend_id
    )


def _fits(
    backend_state: Any, properties: dict[str, Any], capability: str
) -> bool:
    """Tell whether one disk of a backend has room for a volume."""
    size_gb = properties.get('size')
    largest_gb = backend_state.capabilities.get(capability)
    return size_gb is None or largest_gb is None or size_gb <= largest_gb
