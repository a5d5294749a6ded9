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

"""Keeps servers with shared CPUs on the NUMA node of their disks.

Through libvirt, and on what runs only: when a server starts again, it is as
Nova describes it, and is put right at the next look.
"""

import collections.abc
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.agent import numa_pinning
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once
from nova_diskplacer.host import nova_conf
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

_PREFIX = 'diskplacer'


class Affinity:
    """Pins the threads of this host's servers.

    :raises ProfileError: a profile is not as it should be.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._uri: str = conf.diskplacer_agent.libvirt_uri
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._config = nova_conf.ReloadingConfig(
            conf.diskplacer_agent.nova_conf, cpus.configured
        )
        self._log = log_once.ChangeLogger(LOG)

    def apply(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Have the servers where their disks are, or where Nova had them.

        :param disks: all prepared disks of the host.
        :raises DiskPlacerError: nova-compute's CPU sets are not as they
            should be; nothing is done.
        :raises HypervisorError: libvirt cannot be asked or refuses; what it
            did not refuse is done.
        :raises OSError: the kernel does not tell the host's CPUs.
        """
        decisions = self._decide(servers, disks, self._config.read())
        self._complain(decisions)
        decisions = [one for one in decisions if one[1].steps]
        if decisions:
            self._carry_out(decisions)

    def _decide(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
        config: cpus.Config,
    ) -> list[tuple[libvirt_servers.Server, numa_pinning.Decision]]:
        host = cpus.read()
        used: dict[str, list[discover.Disk]] = {}
        by_uuid = {disk.uuid: disk for disk in disks}
        for uuid, there in usage.servers_by_disk(servers, disks).items():
            for server in there:
                used.setdefault(server.uuid, []).append(by_uuid[uuid])
        found = []
        for server in servers:
            decision = numa_pinning.decide(
                server,
                numa_pinning.asks(server, self._profiles),
                used.get(server.uuid, ()),
                host,
                config,
            )
            if decision is not None:
                found.append((server, decision))
        return found

    def _complain(
        self,
        decisions: list[tuple[libvirt_servers.Server, numa_pinning.Decision]],
    ) -> None:
        problems = {
            server.uuid: decision.problem
            for server, decision in decisions
            if decision.problem
        }
        for uuid, problem in problems.items():
            self._log.log(
                uuid,
                'Server %s cannot be kept on the NUMA node of its disks: %s.',
                uuid,
                problem,
            )
        self._log.clear_except(problems)

    def _carry_out(
        self,
        decisions: list[tuple[libvirt_servers.Server, numa_pinning.Decision]],
    ) -> None:
        libvirt = libvirt_connection.import_libvirt()
        refused = []
        with libvirt_connection.connect(
            self._uri, 'pin servers', read_only=False
        ) as connection:
            for server, decision in decisions:
                try:
                    domain = connection.lookupByUUIDString(server.uuid)
                    if domain.ID() == decision.run:
                        _apply(libvirt, domain, decision.steps)
                        _tell(server, decision)
                except libvirt.libvirtError as error:
                    if _runs(libvirt, connection, decision.run):
                        refused.append(f'{server.uuid}: {error}')
        if refused:
            raise exception.HypervisorError(
                f'libvirt does not pin servers: {"; ".join(refused)}'
            )


def _runs(libvirt: Any, connection: Any, run: int) -> bool:
    """Return whether a run of a server goes on, or at least may."""
    try:
        connection.lookupByID(run)
    except libvirt.libvirtError as error:
        return bool(error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN)
    return True


def _apply(
    libvirt: Any,
    domain: Any,
    steps: collections.abc.Iterable[numa_pinning.Step],
) -> None:
    live = libvirt.VIR_DOMAIN_AFFECT_LIVE
    for step in steps:
        if isinstance(step, numa_pinning.Mark):
            _mark(libvirt, domain, step.node)
            continue
        allowed = tuple(cpu in step.cpus for cpu in range(1 + max(step.cpus)))
        kind, number = step.thread
        if kind == numa_pinning.VCPU:
            domain.pinVcpuFlags(number, allowed, live)
        elif kind == numa_pinning.EMULATOR:
            domain.pinEmulator(allowed, live)
        else:
            domain.pinIOThread(number, allowed, live)


def _mark(libvirt: Any, domain: Any, node: int | None) -> None:
    domain.setMetadata(
        libvirt.VIR_DOMAIN_METADATA_ELEMENT,
        None if node is None else f'<affinity node="{node}"/>',
        None if node is None else _PREFIX,
        numa_pinning.NAMESPACE,
        libvirt.VIR_DOMAIN_AFFECT_LIVE,
    )


def _tell(
    server: libvirt_servers.Server, decision: numa_pinning.Decision
) -> None:
    if decision.node is None:
        LOG.info(
            'Server %s may use CPUs %s again, as Nova had it.',
            server.uuid,
            cpus.render(decision.cpus),
        )
    else:
        LOG.info(
            'Server %s is kept on CPUs %s of NUMA node %d, where its disks '
            'are.',
            server.uuid,
            cpus.render(decision.cpus),
            decision.node,
        )
