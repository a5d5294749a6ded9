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

"""The servers of this host, as libvirt knows them.

Nova writes the extra specs of a server's flavor in the metadata of its
domain, so that no API has to be asked.
"""

import collections.abc
import dataclasses
import functools
import xml.etree.ElementTree  # noqa: S405
from typing import Any

from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_NOVA = '{http://openstack.org/xmlns/libvirt/nova/1.1}'
_INSTANCE = f'metadata/{_NOVA}instance'
_FLAVOR = f'{_INSTANCE}/{_NOVA}flavor'
_PROJECT = f'{_INSTANCE}/{_NOVA}owner/{_NOVA}project'


@dataclasses.dataclass(frozen=True)
class Domain:
    """A server; ``uuid`` is Nova's.

    ``number`` is libvirt's ID of the running domain, None if it does not run;
    ``project`` is the ID of the server's project, '' if Nova did not say.

    ``vdisks`` are the paths of the files and block devices that it has as
    disks: its vdisks, and whatever else Nova gave it; ``placed`` tells them
    apart. ``caches`` has the host cache mode of each that Nova's
    configuration decides about, which is not that of shared ones.

    ``running`` is also true of a paused server, which has its process still.
    Nova owns the pinning of all of a server's threads if
    ``pinned_by_nova``. ``xml`` is libvirt's description, of the running
    domain if it runs.
    """

    uuid: str
    name: str
    extra_specs: collections.abc.Mapping[str, str]
    vdisks: tuple[str, ...]
    caches: collections.abc.Mapping[str, str]
    running: bool
    pinned_by_nova: bool
    xml: str = dataclasses.field(repr=False)
    number: int | None = None
    project: str = ''


def domains(uri: str) -> list[Domain]:
    """Return Nova's servers on this host, sorted by UUID.

    A host without libvirt-python has none.

    :param uri: the libvirt to ask.
    :raises HypervisorError: libvirt cannot be asked. That does not mean that
        there are no servers.
    """
    libvirt = load()
    if libvirt is None:
        return []
    found = []
    try:
        connection = libvirt.openReadOnly(uri)
        try:
            for domain in connection.listAllDomains():
                try:
                    text, running = domain.XMLDesc(), bool(domain.isActive())
                except libvirt.libvirtError as error:
                    if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                        # gone since it was listed
                        continue
                    raise
                found.append(parse(text, running))
        finally:
            connection.close()
    except libvirt.libvirtError as error:
        raise exception.HypervisorError(
            f'libvirt at [diskplacer_agent] libvirt_uri={uri} does not list '
            f'its domains: {error}'
        ) from error
    return sorted(
        (domain for domain in found if domain is not None),
        key=lambda domain: domain.uuid,
    )


@functools.lru_cache(maxsize=1024)
def parse(text: str, running: bool) -> Domain | None:
    """Return the server that libvirt's XML describes, None if not Nova's.

    Most are the same from one look to the next.
    """
    root = xml.etree.ElementTree.fromstring(text)  # noqa: S314
    flavor = root.find(_FLAVOR)
    if flavor is None:
        return None
    paths, caches = [], {}
    for disk in root.iterfind('devices/disk'):
        source, driver = disk.find('source'), disk.find('driver')
        path = None
        if source is not None:
            path = source.get('file') or source.get('dev')
        if path:
            paths.append(path)
            cache = None if driver is None else driver.get('cache')
            if cache and disk.find('shareable') is None:
                caches[path] = cache
    if flavor.find(f'{_NOVA}extraSpecs') is None:
        _warn_of_old_nova()
    number, owner = root.get('id'), root.find(_PROJECT)
    specs = flavor.iterfind(f'{_NOVA}extraSpecs/{_NOVA}extraSpec')
    return Domain(
        uuid=root.findtext('uuid', ''),
        name=root.findtext('name', ''),
        extra_specs={spec.get('name', ''): spec.text or '' for spec in specs},
        vdisks=tuple(paths),
        caches=caches,
        running=running,
        # Nova gives a guest nodes of its own if and only if it pins it, and
        # nobody adds them later; of pins that cannot be said
        pinned_by_nova=root.find('cpu/numa') is not None,
        xml=text,
        number=int(number) if number else None,
        project='' if owner is None else owner.get('uuid', ''),
    )


@functools.cache
def load() -> Any:
    """Return the module libvirt, None if there is none; warns of it once."""
    try:
        import libvirt
    except ImportError:
        LOG.warning(
            'There is no libvirt-python: the agent does not know of servers '
            'and changes nothing for them.'
        )
        return None
    # it would print every error, beside raising it
    libvirt.registerErrorHandler(_ignore, None)
    return libvirt


@functools.cache
def _warn_of_old_nova() -> None:
    LOG.warning(
        'There are servers whose extra specs are not in the metadata of their '
        'domains, and so nothing is changed for them: a Nova that does not '
        'write them has started them.'
    )


def _ignore(context: Any, error: Any) -> None:
    """Leave an error to the exception that it is raised as."""
