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

"""Nova's servers on this host, read from libvirt.

Nova writes the extra specs of a server's flavor to the metadata of its domain,
so no API is needed.
"""

import collections.abc
import dataclasses
import functools
import xml.etree.ElementTree  # noqa: S405

from oslo_log import log as logging

from nova_diskplacer.host import libvirt_connection

LOG = logging.getLogger(__name__)

_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_INSTANCE = f'metadata/{_NOVA}instance'
_FLAVOR = f'{_INSTANCE}/{_NOVA}flavor'
_PROJECT = f'{_INSTANCE}/{_NOVA}owner/{_NOVA}project'


@dataclasses.dataclass(frozen=True)
class Server:
    """A server of Nova.

    ``domain_id`` is libvirt's ID of the running domain, None if it is not
    running. ``project`` is the ID of the server's project, '' if unknown.

    ``vdisks`` are the paths of all files and block devices that are attached
    as disks; ``usage.vdisks_in_use`` selects those on prepared disks.
    ``caches`` maps paths to host cache modes. It lacks shareable disks, which
    ignore Nova's configured mode.

    ``running`` is also True for a paused server, which still has its process.
    ``pinned_by_nova`` is True if Nova pins all threads of the server. ``xml``
    is libvirt's description, the live one if the server is running.
    """

    uuid: str
    name: str
    extra_specs: collections.abc.Mapping[str, str]
    vdisks: tuple[str, ...]
    caches: collections.abc.Mapping[str, str]
    running: bool
    pinned_by_nova: bool
    xml: str = dataclasses.field(repr=False)
    domain_id: int | None = None
    project: str = ''


def list_servers(uri: str) -> list[Server]:
    """Return Nova's servers on this host, sorted by UUID.

    The list is empty without libvirt-python.

    :raises HypervisorError: libvirt does not answer; there may be servers.
    """
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        return []
    servers = []
    with libvirt_connection.connect(uri, 'list its domains') as connection:
        for domain in connection.listAllDomains():
            try:
                text, running = domain.XMLDesc(), bool(domain.isActive())
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    # deleted since it was listed
                    continue
                raise
            servers.append(parse(text, running))
    return sorted(
        (server for server in servers if server is not None),
        key=lambda server: server.uuid,
    )


@functools.lru_cache(maxsize=1024)
def parse(text: str, running: bool) -> Server | None:
    """Return the server that libvirt's XML describes, None if not Nova's.

    The cache saves parsing unchanged servers in every interval.
    """
    root = xml.etree.ElementTree.fromstring(text)  # noqa: S314
    flavor = root.find(_FLAVOR)
    if flavor is None:
        return None
    paths, caches = [], {}
    for disk in root.iterfind('devices/disk'):
        source, driver = disk.find('source'), disk.find('driver[@cache]')
        if source is None:
            continue
        path = source.get('file') or source.get('dev')
        if path:
            paths.append(path)
            if driver is not None and disk.find('shareable') is None:
                caches[path] = driver.get('cache', '')
    if flavor.find(f'{_NOVA}extraSpecs') is None:
        _warn_of_old_nova()
    domain_id, owner = root.get('id'), root.find(_PROJECT)
    specs = flavor.iterfind(f'{_NOVA}extraSpecs/{_NOVA}extraSpec')
    return Server(
        uuid=root.findtext('uuid', ''),
        name=root.findtext('name', ''),
        extra_specs={spec.get('name', ''): spec.text or '' for spec in specs},
        vdisks=tuple(paths),
        caches=caches,
        running=running,
        # Nova defines a NUMA topology if and only if it pins the guest;
        # other tools may add pins, but no topology
        pinned_by_nova=root.find('cpu/numa') is not None,
        xml=text,
        domain_id=int(domain_id) if domain_id else None,
        project='' if owner is None else owner.get('uuid', ''),
    )


@functools.cache
def _warn_of_old_nova() -> None:
    LOG.warning(
        'Tiers, profiles and pins are ignored for some servers: the metadata '
        'of their domains has no extra specs, because they were started by '
        'Nova 31 or earlier.'
    )
