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

Enable it in cinder.conf of the schedulers::

    [DEFAULT]
    scheduler_default_filters = AvailabilityZoneFilter,CapacityFilter,\
CapabilitiesFilter,VDiskLocalityFilter
"""

from typing import Any

from cinder.scheduler import filters
from cinder.volume import volume_utils
from oslo_log import log as logging
from oslo_utils import uuidutils

from cinder_vdisk_mapper import cinder_internals
from cinder_vdisk_mapper import servers
from nova_diskplacer import internals

LOG = logging.getLogger(__name__)

HINT = 'local_to_instance'

# What is known of the host of a volume that is for no server; not a host.
ANYWHERE = '*'


class VDiskLocalityFilter(filters.BaseBackendFilter):
    """Pass the vdisk backends of the host of the server that it is for.

    A new volume must fit one disk of the backend; one that exists fits where
    it is.

    The server is known by the scheduler hint ``local_to_instance``, or by the
    name that nova-compute gives to a blank volume. Backends that do not
    report the capability ``vdisk_mapper`` are not filtered, nor is a request
    that names no server. Where the hint names no server, or the server is of
    another project or has no host, no vdisk backend passes.
    """

    def __init__(self) -> None:
        super().__init__()
        internals.check(cinder_internals.SCHEDULER, cinder_internals.RELEASE)
        # Cinder makes a filter for each request, so this asks Nova once.
        self._hosts: dict[str, str | None] = {}

    def backend_passes(
        self, backend_state: Any, filter_properties: dict[str, Any]
    ) -> bool:
        """Tell whether the backend may hold the requested volume."""
        if not backend_state.capabilities.get('vdisk_mapper'):
            return True
        properties = _properties(filter_properties)
        if not _fits(backend_state, properties):
            return False
        hint = (filter_properties.get('scheduler_hints') or {}).get(HINT)
        server_id = hint or servers.of_blank_volume(
            properties.get('display_name')
        )
        if not server_id:
            return True
        if not uuidutils.is_uuid_like(server_id):
            LOG.warning('%s=%s is not the UUID of a server', HINT, server_id)
            return hint is None
        if server_id not in self._hosts:
            self._hosts[server_id] = self._host(
                filter_properties['context'], server_id, hint is not None
            )
        host = self._hosts[server_id]
        backend = volume_utils.extract_host(backend_state.backend_id, 'host')
        return host in (ANYWHERE, backend)

    @staticmethod
    def _host(context: Any, server_id: str, hinted: bool) -> str | None:
        try:
            server = servers.get(context, server_id)
        except servers.NovaError as error:
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


def _properties(filter_properties: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of the volume; a request may be about none."""
    spec = filter_properties.get('request_spec') or {}
    return dict(spec.get('volume_properties') or {})


def _fits(backend_state: Any, properties: dict[str, Any]) -> bool:
    size_gb = properties.get('size')
    largest_gb = backend_state.capabilities.get('vdisk_largest_free_gb')
    if size_gb is None or largest_gb is None:
        return True
    here = (
        properties.get('status') != 'creating'
        and properties.get('host') == backend_state.backend_id
    )
    return here or bool(size_gb <= largest_gb)
