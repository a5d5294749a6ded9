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

"""Finds the consumers of disks: servers and configured cgroups."""

import collections.abc
import functools
import glob
import os
import re

from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.monitor import types

# libvirt's names of a domain's cgroup, with and without systemd-machined.
_CGROUP_NAMES = re.compile(
    r'(?:machine-)?qemu(?:\\x2d|-)(\d+)(?:\\x2d|-)(.*)\.(?:scope|libvirt-qemu)'
)
_PARTITION = '<partition>'
_DEFAULT_PARTITION = '/machine'
# Top-level partitions; libvirt adds no suffix to their names.
_TOP_PARTITIONS = ('machine', 'user', 'system')

# Servers are looked for every few seconds, and seldom change.
_cached = functools.lru_cache(maxsize=4096)

# Names and cgroups of domains, by libvirt's ID.
_Cgroups = dict[int, list[tuple[str, str]]]


def find(
    servers: collections.abc.Iterable[libvirt_servers.Server],
    patterns: collections.abc.Iterable[str],
    hierarchy: cgroups.Hierarchy,
) -> dict[str, types.Consumer]:
    """Return all servers and the matching cgroups, by key.

    A server's cgroup is not returned again as a matching cgroup.

    :param patterns: shell patterns of paths below the hierarchy's root.
    """
    listed: dict[str, _Cgroups] = {}
    consumers = {}
    for server in servers:
        cgroup = ''
        if server.domain_id is not None:
            partition = _partition(server.xml)
            if partition not in listed:
                listed[partition] = _list_domains(partition, hierarchy)
            name = _alphanumerics(server.name)
            for prefix, path in listed[partition].get(server.domain_id, ()):
                # another libvirt on the machine may use the same ID
                if name.startswith(prefix):
                    cgroup = path
                    break
        consumers[server.uuid] = types.Consumer(
            key=server.uuid,
            cgroup=cgroup,
            domain=server.name,
            project=server.project,
            extra_specs=server.extra_specs,
        )
    taken = {consumer.cgroup for consumer in consumers.values()}
    for pattern in patterns:
        for path in glob.glob(pattern.strip('/'), root_dir=hierarchy.root):
            if path not in taken and os.path.isdir(hierarchy.path(path)):
                consumers[path] = types.Consumer(key=path, cgroup=path)
    return consumers


def parent_cgroups(partition: str) -> list[str]:
    """Return the possible parent cgroups of the domains in a partition.

    The first applies with systemd-machined, the second without.

    :param partition: as in a domain's XML, such as ``/machine``.
    """
    parts = [part for part in partition.split('/') if part]
    slices = [
        '-'.join(map(_escaped, parts[: count + 1])) + '.slice'
        for count in range(len(parts))
    ]
    plain = [
        part
        if '.' in part or (not count and part in _TOP_PARTITIONS)
        else f'{part}.partition'
        for count, part in enumerate(parts)
    ]
    return ['/'.join(slices), '/'.join(plain)]


def _list_domains(partition: str, hierarchy: cgroups.Hierarchy) -> '_Cgroups':
    cgroups_: _Cgroups = {}
    for parent in parent_cgroups(partition):
        try:
            entries = os.listdir(hierarchy.path(parent))
        except OSError:
            # this host uses the other layout
            continue
        for entry in entries:
            domain = _parse_cgroup_name(entry)
            if domain:
                number, name = domain
                cgroups_.setdefault(number, []).append(
                    (name, f'{parent}/{entry}')
                )
    return cgroups_


def _partition(xml: str) -> str:
    start = xml.find(_PARTITION)
    if start < 0:
        return _DEFAULT_PARTITION
    start += len(_PARTITION)
    return xml[start : xml.index('<', start)]


@_cached
def _parse_cgroup_name(entry: str) -> tuple[int, str] | None:
    """Return libvirt's ID and the alphanumerics of a domain's name.

    :returns: None for another cgroup.
    """
    match = _CGROUP_NAMES.fullmatch(entry)
    if match is None:
        return None
    name = re.sub(
        r'\\x([0-9a-f]{2})',
        lambda escaped: chr(int(escaped[1], 16)),
        match[2],
    )
    return int(match[1]), _alphanumerics(name)


@_cached
def _alphanumerics(name: str) -> str:
    """Return the characters that libvirt always keeps in a cgroup's name."""
    return re.sub(r'[^A-Za-z0-9]', '', name)


def _escaped(name: str) -> str:
    """Return a part of a slice's name in libvirt's notation."""
    return re.sub(
        r'[^A-Za-z0-9_.:]|^\.',
        lambda match: f'\\x{ord(match[0]):02x}',
        name,
    )
