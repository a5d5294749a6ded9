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

"""Parses sets of CPUs, and reads those of this host and of Nova."""

import collections.abc
import dataclasses
import glob
import os
import re

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.host import nova_conf
from nova_diskplacer.host import sysfs

Cpus = frozenset[int]

_ALLOWED = 'CPUs and ranges, those to leave out after ^, such as 0-7,^2,12'


@dataclasses.dataclass(frozen=True)
class HostCpus:
    """The online CPUs of a host, all and by NUMA node."""

    online: Cpus
    nodes: collections.abc.Mapping[int, Cpus]


@dataclasses.dataclass(frozen=True)
class NovaCpuSets:
    """Nova's CPU sets in ``[compute]``; None: not set."""

    shared: Cpus | None = None
    dedicated: Cpus | None = None

    def available(self, online: Cpus) -> Cpus:
        """Return the CPUs that servers with shared CPUs may use.

        Without a shared set they are all but the dedicated ones. Nova runs no
        such servers if only the dedicated set is configured.
        """
        if self.shared is not None:
            return self.shared & online
        return online - (self.dedicated or frozenset())


def parse(text: str) -> Cpus:
    """Parse a set of CPUs in the syntax of Nova, libvirt and the kernel.

    :raises ValueError: the text is malformed.
    """
    included: set[int] = set()
    excluded: set[int] = set()
    for rule in filter(None, map(str.strip, text.split(','))):
        numbers = excluded if rule.startswith('^') else included
        match = re.fullmatch(r'\^?\s*(\d+)\s*(?:-\s*(\d+))?', rule)
        if match is None:
            raise ValueError(f'{rule!r} in {text!r} is none of {_ALLOWED}')
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise ValueError(f'{rule!r} in {text!r} ends before it begins')
        numbers.update(range(first, last + 1))
    return frozenset(included - excluded)


def render(cpus: collections.abc.Iterable[int]) -> str:
    """Return the text of a set of CPUs, with ranges."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ','.join(
        str(first) if first == last else f'{first}-{last}'
        for first, last in ranges
    )


def read(sys: str = sysfs.SYS) -> HostCpus:
    """Return the CPUs of this host."""
    devices = os.path.join(sys, 'devices', 'system')
    online = parse(sysfs.read(os.path.join(devices, 'cpu', 'online')))
    return HostCpus(
        online,
        {
            int(os.path.basename(node).removeprefix('node')): online
            & parse(sysfs.read(os.path.join(node, 'cpulist')))
            for node in glob.glob(os.path.join(devices, 'node', 'node[0-9]*'))
        },
    )


def read_nova_sets(files: collections.abc.Iterable[str]) -> NovaCpuSets:
    """Return the CPU sets of nova-compute's configuration files.

    :raises DiskPlacerError: a file cannot be read, or an option is invalid.
    """
    names = ('cpu_shared_set', 'cpu_dedicated_set')
    options = nova_conf.parse(files, *map(cfg.StrOpt, names))
    return NovaCpuSets(*(_parse_option(name, options[name]) for name in names))


def _parse_option(name: str, text: str | None) -> Cpus | None:
    if not text:
        return None
    where = f'[compute] {name}={text}'
    try:
        parsed = parse(text)
    except ValueError as error:
        raise exception.DiskPlacerError(f'{where}: {error}') from error
    if not parsed:
        raise exception.DiskPlacerError(
            f'{where} leaves no CPU; allowed are {_ALLOWED}'
        )
    return parsed
