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

Nothing here does I/O: ``decide`` makes of libvirt's description of a server
the steps that put it right. They are such that a server is put right in the
end wherever they are interrupted.
"""

import collections.abc
import dataclasses
import typing
import xml.etree.ElementTree  # noqa: S405

from nova_diskplacer import flavor
from nova_diskplacer.disks import discover
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.profiles import catalogue

#: XML namespace of the mark that a server has which the agent has pinned.
NAMESPACE = 'urn:nova-diskplacer:affinity'

VCPU = 'vcpu'
EMULATOR = 'emulator'
IOTHREAD = 'iothread'

_NUMA = f'{flavor.NAMESPACE}numa'
_PROFILE = f'{flavor.NAMESPACE}{flavor.PROFILE}'
_POLICY = 'hw:cpu_policy'


class Thread(typing.NamedTuple):
    """A thread that libvirt pins; ``number`` of the emulator's is 0."""

    kind: str
    number: int


@dataclasses.dataclass(frozen=True)
class Threads:
    """The threads of a running server, as its XML tells.

    ``run`` tells this run of the server from others. ``node`` is that of the
    agent's mark, None without one. ``confined`` are the CPUs that Nova lets
    it use, None if all. ``pins`` are those of threads that are pinned.
    """

    run: int
    node: int | None
    confined: cpus.Cpus | None
    all: tuple[Thread, ...]
    pins: collections.abc.Mapping[Thread, cpus.Cpus]


@dataclasses.dataclass(frozen=True)
class Mark:
    """A step: mark the server as pinned to a node; None: as not pinned."""

    node: int | None


@dataclasses.dataclass(frozen=True)
class Pin:
    """A step: have a thread use these CPUs only."""

    thread: Thread
    cpus: cpus.Cpus


Step = Mark | Pin


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to be done for a server, in order.

    ``node`` is where it is kept, None if nowhere. ``problem`` says why a
    server that asks for it cannot be, '' if it is or does not ask.
    """

    run: int
    node: int | None
    problem: str
    cpus: cpus.Cpus
    steps: tuple[Step, ...]


def asks(
    server: libvirt_servers.Server,
    profiles: collections.abc.Mapping[str, catalogue.Profile],
) -> bool:
    """Return whether the server's flavor, or its profile, asks for a node."""
    specs = server.extra_specs
    profile = profiles.get(specs.get(_PROFILE, ''))
    default = profile.specs.get(_NUMA) if profile else None
    return specs.get(_NUMA, default) in (flavor.PREFERRED, flavor.REQUIRED)


def decide(
    server: libvirt_servers.Server,
    asking: bool,
    disks: collections.abc.Collection[discover.Disk],
    host: cpus.Host,
    config: cpus.Config,
) -> Decision | None:
    """Return what to do for a server, None if it is none of the agent's.

    :param asking: whether its vCPUs are to be on its disks' node.
    :param disks: those that its vdisks are on.
    """
    if not server.running:
        return None
    root = xml.etree.ElementTree.fromstring(server.xml)  # noqa: S314
    if _is_nova_s(server, root):
        return None
    threads = _threads(root)
    ours = threads.node is not None
    # where there is one node all is on it
    asking = asking and bool(disks) and sum(map(bool, host.nodes.values())) > 1
    if not ours and not asking:
        return None
    if ours and any(disk.health in discover.UNAVAILABLE for disk in disks):
        # of what cannot be seen it is not said that it is elsewhere
        return None
    whole = host.online if threads.confined is None else threads.confined
    free = whole & host.online
    if not free:
        return None
    pins = {
        thread: threads.pins.get(thread, whole) & host.online
        for thread in threads.all
    }
    if not ours and any(not free <= pin for pin in pins.values()):
        return Decision(
            threads.run, None, 'somebody else has pinned it', free, ()
        )
    node, problem = None, ''
    if asking:
        node, problem = _node(disks)
    target = free
    if node is not None:
        target = host.nodes.get(node, frozenset()) & free
        target &= config.available(host.online)
        vcpus = sum(thread.kind == VCPU for thread in threads.all)
        if len(target) < max(1, vcpus):
            problem = (
                f'NUMA node {node} has {len(target)} CPUs that it may use, '
                f'which is too few for its {vcpus} vCPUs'
            )
            node, target = None, free
    steps: list[Step] = [
        Pin(thread, target) for thread in threads.all if pins[thread] != target
    ]
    if node != threads.node:
        # the mark is there as long as any pin may be
        steps.insert(len(steps) if node is None else 0, Mark(node))
    return Decision(threads.run, node, problem, target, tuple(steps))


def _is_nova_s(
    server: libvirt_servers.Server, root: xml.etree.ElementTree.Element
) -> bool:
    """Return whether Nova has chosen the CPUs of each vCPU.

    It then gives the guest a NUMA topology, which is what tells; the others
    are there lest a server with dedicated CPUs is ever touched.
    """
    return (
        server.pinned_by_nova
        or root.find('numatune') is not None
        or server.extra_specs.get(_POLICY, 'shared') != 'shared'
    )


def _node(
    disks: collections.abc.Collection[discover.Disk],
) -> tuple[int | None, str]:
    nodes = {disk.numa_node for disk in disks}
    if None in nodes:
        return None, 'the NUMA node of its disks is not known'
    if len(nodes) > 1:
        return None, 'its disks are on several NUMA nodes'
    return nodes.pop(), ''


def _threads(root: xml.etree.ElementTree.Element) -> Threads:
    mark = root.find(f'metadata/{{{NAMESPACE}}}affinity')
    vcpu = root.find('vcpu')
    confined, vcpus = None, 0
    if vcpu is not None:
        vcpus = int(vcpu.text or 0)
        if vcpu.get('cpuset'):
            confined = cpus.parse(vcpu.get('cpuset', ''))
    numbers = [
        int(one.get('id', 0)) for one in root.iterfind('iothreadids/iothread')
    ] or range(1, 1 + int(root.findtext('iothreads') or 0))
    everything = [Thread(VCPU, number) for number in range(vcpus)]
    everything.append(Thread(EMULATOR, 0))
    everything += [Thread(IOTHREAD, number) for number in sorted(numbers)]
    pins = {}
    for kind in (VCPU, EMULATOR, IOTHREAD):
        for pin in root.iterfind(f'cputune/{kind}pin'):
            thread = Thread(kind, int(pin.get(kind, 0)))
            pins[thread] = cpus.parse(pin.get('cpuset', ''))
    return Threads(
        run=int(root.get('id', -1)),
        node=None if mark is None else int(mark.get('node', -1)),
        confined=confined,
        all=tuple(everything),
        pins=pins,
    )
