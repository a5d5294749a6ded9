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

"""Decides which host CPUs the threads of servers with local disks may use.

This module does no I/O: ``decide`` computes the steps to pin a server from
libvirt's description of it. After an interruption at any step, later calls
complete the change.
"""

import collections.abc
import dataclasses
import typing
import xml.etree.ElementTree  # noqa: S405

from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.profiles import definitions

#: XML namespace of the metadata of servers that the agent has pinned.
NAMESPACE = 'urn:nova-diskplacer:affinity'

VCPU = 'vcpu'
EMULATOR = 'emulator'
IOTHREAD = 'iothread'

_NUMA = f'{flavor.NAMESPACE}numa'
_PROFILE = f'{flavor.NAMESPACE}{flavor.PROFILE}'
_POLICY = 'hw:cpu_policy'


class Thread(typing.NamedTuple):
    """A thread that libvirt pins; the emulator has the ``number`` 0."""

    kind: str
    number: int


@dataclasses.dataclass(frozen=True)
class SetMetadata:
    """A step: record the node in the server's metadata; None removes it."""

    node: int | None


@dataclasses.dataclass(frozen=True)
class Pin:
    """A step: restrict a thread to CPUs."""

    thread: Thread
    cpus: cpus.Cpus


Step = SetMetadata | Pin


@dataclasses.dataclass(frozen=True)
class Decision:
    """The steps for a server, in order.

    ``node`` is the node to pin the server to, None for no node. ``problem``
    is the reason why a server that requests pinning is not pinned, or ''.
    """

    node: int | None
    problem: str
    cpus: cpus.Cpus
    steps: tuple[Step, ...]


def requests_numa_node(
    server: libvirt_servers.Server,
    profiles: collections.abc.Mapping[str, definitions.Profile],
) -> bool:
    """Return whether the flavor or its profile requests the disks' node."""
    specs = server.extra_specs
    profile = profiles.get(specs.get(_PROFILE, ''))
    default = profile.specs.get(_NUMA) if profile else None
    return specs.get(_NUMA, default) in (flavor.PREFERRED, flavor.REQUIRED)


def decide(
    server: libvirt_servers.Server,
    requested: bool,
    disks: collections.abc.Collection[discover.Disk],
    host: cpus.HostCpus,
    config: cpus.NovaCpuSets,
) -> Decision | None:
    """Decide on a server, None if the agent does not pin or unpin it.

    :param requested: the result of ``requests_numa_node``.
    :param disks: the disks of its vdisks.
    """
    if not server.running:
        return None
    domain = _parse(server.xml)
    if _is_pinned_by_nova(server, domain):
        return None
    # a host with one node needs no pinning
    several_nodes = sum(map(bool, host.nodes.values())) > 1
    requested = requested and bool(disks) and several_nodes
    if not (domain.pinned or requested):
        return None
    if domain.pinned and any(
        disk.health in discover.UNAVAILABLE for disk in disks
    ):
        # the node of an unreadable disk is not known to have changed
        return None
    allowed = host.online
    if domain.cpuset is not None:
        allowed &= domain.cpuset
    if not allowed:
        return None
    pins = {
        thread: allowed if pin is None else pin & host.online
        for thread, pin in domain.pins.items()
    }
    if not domain.pinned and any(not allowed <= pin for pin in pins.values()):
        return Decision(None, 'another tool has pinned it', allowed, ())
    node, problem, target = None, '', allowed
    if requested:
        usable = allowed & config.available(host.online)
        vcpus = sum(thread.kind == VCPU for thread in pins)
        node, problem = _find_node(disks, host, usable, vcpus)
    if node is not None:
        target = host.nodes[node] & usable
    return Decision(
        node, problem, target, _steps(pins, target, domain.node, node)
    )


def _steps(
    pins: collections.abc.Mapping[Thread, cpus.Cpus],
    target: cpus.Cpus,
    before: int | None,
    node: int | None,
) -> tuple[Step, ...]:
    """Return the steps that pin all threads to CPUs, those of a node.

    :param before: the node in the server's metadata.
    """
    steps: list[Step] = [
        Pin(thread, target) for thread, pin in pins.items() if pin != target
    ]
    if node != before:
        # a server with any pin of the agent always has the metadata
        steps.insert(len(steps) if node is None else 0, SetMetadata(node))
    return tuple(steps)


def _find_node(
    disks: collections.abc.Collection[discover.Disk],
    host: cpus.HostCpus,
    usable: cpus.Cpus,
    vcpus: int,
) -> tuple[int | None, str]:
    """Return the node of the disks, or why a server is not pinned to it.

    :param usable: the CPUs that the server may use.
    """
    node, *further = {disk.numa_node for disk in disks}
    if node is None or None in further:
        return None, 'the NUMA node of its disks is unknown'
    if further:
        return None, 'its disks are on several NUMA nodes'
    count = len(host.nodes.get(node, frozenset()) & usable)
    if count < max(1, vcpus):
        return None, (
            f'NUMA node {node} has {count} CPUs that it may use, '
            f'which is too few for its {vcpus} vCPUs'
        )
    return node, ''


@dataclasses.dataclass(frozen=True)
class _Domain:
    """The CPUs of a server in libvirt's description of it.

    ``pinned`` is true if the agent has pinned it, to ``node``.
    ``numa_tuned`` is true with a NUMA topology of Nova. ``cpuset`` are the
    CPUs of all threads, None for any, and ``pins`` those of each, None for one
    that is not pinned.
    """

    pinned: bool
    node: int | None
    numa_tuned: bool
    cpuset: cpus.Cpus | None
    pins: collections.abc.Mapping[Thread, cpus.Cpus | None]


def _parse(text: str) -> _Domain:
    root = xml.etree.ElementTree.fromstring(text)  # noqa: S314
    metadata = root.find(f'metadata/{{{NAMESPACE}}}affinity')
    vcpu = root.find('vcpu[@cpuset]')
    return _Domain(
        pinned=metadata is not None,
        node=None if metadata is None else int(metadata.get('node', -1)),
        numa_tuned=root.find('numatune') is not None,
        cpuset=None if vcpu is None else cpus.parse(vcpu.get('cpuset', '')),
        pins=_parse_threads(root),
    )


def _is_pinned_by_nova(
    server: libvirt_servers.Server, domain: _Domain
) -> bool:
    # Nova defines a NUMA topology if it pins vCPUs, which suffices; the other
    # conditions additionally protect servers with dedicated CPUs
    return (
        server.pinned_by_nova
        or domain.numa_tuned
        or server.extra_specs.get(_POLICY, 'shared') != 'shared'
    )


def _parse_threads(
    root: xml.etree.ElementTree.Element,
) -> dict[Thread, cpus.Cpus | None]:
    """Return the CPUs of each thread, None for one that is not pinned."""
    numbers = [
        int(thread.get('id', 0))
        for thread in root.iterfind('iothreadids/iothread')
    ] or range(1, 1 + int(root.findtext('iothreads') or 0))
    threads = [
        *(
            Thread(VCPU, number)
            for number in range(int(root.findtext('vcpu') or 0))
        ),
        Thread(EMULATOR, 0),
        *(Thread(IOTHREAD, number) for number in sorted(numbers)),
    ]
    pins = {}
    for kind in (VCPU, EMULATOR, IOTHREAD):
        for pin in root.iterfind(f'cputune/{kind}pin'):
            thread = Thread(kind, int(pin.get(kind, 0)))
            pins[thread] = cpus.parse(pin.get('cpuset', ''))
    return {thread: pins.get(thread) for thread in threads}
