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

The agent pins their threads through libvirt, for running domains only: a
restarted server has Nova's definition again until the next interval.
"""

import collections
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

    :raises ProfileError: a profile is invalid.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._uri: str = conf.diskplacer_agent.libvirt_uri
        self._profiles = catalogue.load(conf.diskplacer.profile_dirs)
        self._config = nova_conf.reloading(
            conf.diskplacer_agent.nova_conf, cpus.read_nova_sets
        )
        self._log = log_once.ChangeLogger(LOG)

    def apply(
        self,
        servers: collections.abc.Sequence[libvirt_servers.Server],
        disks: collections.abc.Sequence[discover.Disk],
    ) -> None:
        """Pin servers to the NUMA node of their disks, or unpin them.

        :raises DiskPlacerError: nova-compute's CPU sets are invalid; nothing
            is changed.
        :raises HypervisorError: libvirt cannot be reached, or refuses to pin
            a server; the other servers are pinned.
        :raises OSError: the host's CPUs cannot be read.
        """
        config, host = self._config(), cpus.read()
        by_uuid = {disk.uuid: disk for disk in disks}
        used = collections.defaultdict(list)
        for server, _, uuid in usage.vdisks_in_use(servers, disks):
            used[server.uuid].append(by_uuid[uuid])
        decisions = []
        for server in servers:
            requested = numa_pinning.requests_numa_node(server, self._profiles)
            decision = numa_pinning.decide(
                server, requested, used[server.uuid], host, config
            )
            if decision and decision.problem:
                self._log.log(
                    server.uuid,
                    'Server %s cannot be kept on the NUMA node of its disks: '
                    '%s.',
                    server.uuid,
                    decision.problem,
                )
            else:
                self._log.clear(server.uuid)
            # without an ID it did not run yet when libvirt described it
            if decision and decision.steps and server.domain_id is not None:
                decisions.append((server, decision))
        self._log.clear_except({server.uuid for server in servers})
        if decisions:
            self._pin_servers(decisions)

    def _pin_servers(
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
                    if domain.ID() == server.domain_id:
                        _apply(libvirt, domain, decision.steps)
                        _log_pinning(server, decision)
                except libvirt.libvirtError as error:
                    if _may_run(libvirt, connection, server.domain_id):
                        refused.append(f'{server.uuid}: {error}')
        if refused:
            raise exception.HypervisorError(
                f'libvirt does not pin servers: {"; ".join(refused)}'
            )


def _may_run(libvirt: Any, connection: Any, domain_id: int | None) -> bool:
    """Return False if the domain with this ID has ended."""
    try:
        connection.lookupByID(domain_id)
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
        if isinstance(step, numa_pinning.SetMetadata):
            domain.setMetadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT,
                None
                if step.node is None
                else f'<affinity node="{step.node}"/>',
                None if step.node is None else _PREFIX,
                numa_pinning.NAMESPACE,
                live,
            )
            continue
        allowed = tuple(cpu in step.cpus for cpu in range(1 + max(step.cpus)))
        kind, number = step.thread
        if kind == numa_pinning.VCPU:
            domain.pinVcpuFlags(number, allowed, live)
        elif kind == numa_pinning.EMULATOR:
            domain.pinEmulator(allowed, live)
        else:
            domain.pinIOThread(number, allowed, live)


def _log_pinning(
    server: libvirt_servers.Server, decision: numa_pinning.Decision
) -> None:
    if decision.node is None:
        LOG.info(
            'Server %s may use CPUs %s again, as configured by Nova.',
            server.uuid,
            cpus.render(decision.cpus),
        )
    else:
        LOG.info(
            'Server %s is pinned to CPUs %s of NUMA node %d, the node of its '
            'disks.',
            server.uuid,
            cpus.render(decision.cpus),
            decision.node,
        )
