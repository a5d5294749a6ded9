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

"""Pins the vCPUs of a server for an experiment, and restores their CPUs.

The original CPUs are saved before they are changed: after a kill the next
experiment on this host restores them. A server that was started
anew has the CPUs that Nova defines, so there is nothing to restore.
"""

import collections.abc
import contextlib
import os
import typing
import xml.etree.ElementTree  # noqa: S405

from oslo_config import cfg

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import samples
from nova_diskplacer.agent import numa_pinning
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import saved_settings

_DIRECTORY = 'sizing'
_RUN = 'run'
_SERVER = 'server'
_AFFINITY = f'metadata/{{{numa_pinning.NAMESPACE}}}affinity'


def check(
    server: libvirt_servers.Server,
    cpu_set: cpus.Cpus,
    host: cpus.HostCpus,
    config: cpus.NovaCpuSets,
) -> None:
    """Check that the vCPUs of a server may be moved among some CPUs.

    :param cpu_set: the CPUs of ``--pin``.
    :raises SizingError: something else pins the server, or there are too few
        CPUs, or some that the server may not use.
    """
    root = xml.etree.ElementTree.fromstring(server.xml)  # noqa: S314
    owner = ''
    if server.pinned_by_nova:
        owner = 'Nova'
    elif root.find(_AFFINITY) is not None:
        owner = 'diskplacer-agent'
    if owner:
        raise errors.SizingError(
            f'{owner} pins server {server.uuid}: take one of a flavor without '
            'hw:cpu_policy, hw:numa_nodes and diskplacer:numa'
        )
    allowed = config.available(host.online)
    confined = root.find('vcpu[@cpuset]')
    if confined is not None:
        allowed &= cpus.parse(confined.get('cpuset', ''))
    text = f'--pin {cpus.render(cpu_set)}'
    if not cpu_set <= allowed:
        raise errors.SizingError(
            f'{text}: server {server.uuid} may use CPUs '
            f'{cpus.render(allowed)} only'
        )
    vcpus = int(root.findtext('vcpu') or 0)
    if len(cpu_set) < vcpus:
        raise errors.SizingError(
            f'{text}: server {server.uuid} has {vcpus} vCPUs and needs as '
            'many CPUs, or the pinned vCPUs would wait for each other'
        )


class Pins:
    """The CPUs of a server's vCPUs, while an experiment lasts."""

    def __init__(self, uri: str, server: str, cpu_set: cpus.Cpus) -> None:
        self._uri = uri
        self._server = server
        self._cpus = sorted(cpu_set)

    def apply(self, vcpus_are: str) -> None:
        """Pin each vCPU to a CPU of its own, or let all of them use all.

        :param vcpus_are: PINNED or FLOATING of ``samples``.
        :raises HypervisorError: libvirt refuses.
        """
        with _domain(self._uri, self._server) as (libvirt, domain):
            for number in range(len(_read(libvirt, domain))):
                used = self._cpus
                if vcpus_are == samples.PINNED:
                    used = [self._cpus[number]]
                _write(libvirt, domain, number, frozenset(used))


@contextlib.contextmanager
def changed(
    conf: cfg.ConfigOpts, server: str, cpu_set: cpus.Cpus
) -> collections.abc.Iterator[Pins]:
    """Yield the pins of a server, and restore its CPUs at the end.

    :raises DiskPlacerError: the CPUs cannot be read, saved or restored.
    """
    uri: str = conf.diskplacer_agent.libvirt_uri
    saved = saved_settings.SavedSettings(
        os.path.join(conf.diskplacer_agent.state_dir, _DIRECTORY),
        lambda settings: _write_back(uri, settings),
    )
    # those of a killed process
    saved.restore_all(saved.uuids())
    with _domain(uri, server) as (libvirt, domain):
        values = {_SERVER: server, _RUN: str(domain.ID())}
        for number, used in enumerate(_read(libvirt, domain)):
            values[str(number)] = cpus.render(used)
    saved.save(server, saved_settings.DeviceSettings('', '', values))
    try:
        yield Pins(uri, server, cpu_set)
    finally:
        saved.restore(server)


def _write_back(uri: str, saved: saved_settings.DeviceSettings) -> bool:
    """Restore the CPUs of a server, unless it was started anew or deleted."""
    values = dict(saved.values)
    server, run = values.pop(_SERVER), int(values.pop(_RUN))
    libvirt = libvirt_connection.import_libvirt()
    with libvirt_connection.connect(
        uri, f'restore the CPUs of server {server}', read_only=False
    ) as connection:
        try:
            domain = connection.lookupByUUIDString(server)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            return True
        if domain.ID() == run:
            for number, text in values.items():
                _write(libvirt, domain, int(number), cpus.parse(text))
    return True


@contextlib.contextmanager
def _domain(
    uri: str, server: str
) -> collections.abc.Iterator[tuple[typing.Any, typing.Any]]:
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        raise errors.SizingError('pinning servers needs libvirt-python')
    with libvirt_connection.connect(
        uri, f'pin server {server}', read_only=False
    ) as connection:
        yield libvirt, connection.lookupByUUIDString(server)


def _read(libvirt: typing.Any, domain: typing.Any) -> list[cpus.Cpus]:
    """Return the CPUs that each vCPU may use."""
    return [
        frozenset(cpu for cpu, allowed in enumerate(mask) if allowed)
        for mask in domain.vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE)
    ]


def _write(
    libvirt: typing.Any, domain: typing.Any, number: int, used: cpus.Cpus
) -> None:
    allowed = tuple(cpu in used for cpu in range(1 + max(used)))
    domain.pinVcpuFlags(number, allowed, libvirt.VIR_DOMAIN_AFFECT_LIVE)
