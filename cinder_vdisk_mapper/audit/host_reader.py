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

"""Reads the state of a host from its disks, Cinder, Placement and Nova."""

import collections.abc
import dataclasses
import functools
from typing import Any

from cinder import context as cinder_context
from oslo_config import cfg
from oslo_log import log as logging

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.moves import leg_steps
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks import records as records_
from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.disks import discover
from nova_diskplacer.host import files
from nova_diskplacer.host import hypervisor
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class HostReader:
    """Reads the state of the VDisk Mapper backends of this host.

    :param ask_nova: returns the servers in Nova, given the consumers that have
        claimed disks.
    :param read_moving: returns the names of the vdisks that follow servers.
    :param compute_node: name of this host's resource provider.
    """

    backends: tuple[base.Backend, ...]
    placement: placement_client.PlacementClient
    records: records_.Records
    ask_nova: collections.abc.Callable[[set[str]], state.Nova]
    read_moving: collections.abc.Callable[[], frozenset[str]]
    compute_node: str

    def read(self, nova: state.Nova | None = None) -> state.HostState:
        """Return the state of the host.

        :param nova: the servers in Nova; None to ask Nova.
        :raises PlacementError: Placement cannot be asked, or does not tell
            which compute node this is.
        """
        records = self.records.of_host()
        disks = {}
        devices: set[tuple[str, str]] = set()
        makes_devices: set[str] = set()
        for backend in self.backends:
            for disk in backend.disks(wait=True):
                disks[disk.uuid] = disk
                if backend.makes_devices:
                    makes_devices.add(disk.uuid)
                if disk.health not in discover.UNAVAILABLE:
                    names = backend.with_device(disk.uuid)
                    devices.update((disk.uuid, name) for name in names)
        recorded = {record.vdisk for record in records}
        records += self.records.others(
            vdisk.name
            for disk in disks.values()
            for vdisk in disk.vdisks
            if vdisk.name not in recorded and state.is_vdisk_name(vdisk.name)
        )
        links = {
            name: disk
            for backend in self.backends
            for name, disk in backend.links().items()
        }
        absent = {
            disk for record in records for disk in record.location.disks
        }.union(filter(None, links.values())) - set(disks)
        providers, foreign, orphans = self._providers(disks)
        if nova is None:
            nova = self.ask_nova(
                {
                    consumer
                    for provider in providers.values()
                    for consumer in provider.claims
                }
                | {record.blank_of for record in records if record.blank_of}
            )
        return state.HostState(
            records=tuple(dict.fromkeys(records)),
            disks=tuple(disks[uuid] for uuid in sorted(disks)),
            providers=providers,
            forgotten=frozenset(filter(self._is_forgotten, absent)),
            foreign=foreign,
            orphan_providers=orphans,
            nova=nova,
            links=links,
            moves_legs=not any(
                vdisk.moving
                for disk in disks.values()
                for vdisk in disk.vdisks
            )
            or files.is_locked(leg_steps.LOCK),
            to_devices=self._to_devices(links),
            devices=frozenset(devices),
            makes_devices=frozenset(makes_devices),
            moved=self._moved(devices),
            moving=self.read_moving(),
        )

    def _to_devices(
        self, links: collections.abc.Mapping[str, str | None]
    ) -> frozenset[str]:
        """Return the names of links that lead to devices."""
        return frozenset(
            name
            for backend in self.backends
            for name, disk in links.items()
            if disk and backend.is_linked_to_device(name)
        )

    def _moved(
        self, devices: collections.abc.Iterable[tuple[str, str]]
    ) -> frozenset[str]:
        """Return the names of those vdisks that have the record of a move."""
        return frozenset(
            name
            for backend in self.backends
            for _, name in devices
            if backend.recorded_move(name)
        )

    def _is_forgotten(self, uuid: str) -> bool:
        try:
            return any(backend.forgotten(uuid) for backend in self.backends)
        except exception.DiskError:
            # another driver's provider_location
            return True

    def _providers(
        self, disks: collections.abc.Iterable[str]
    ) -> tuple[
        dict[str, state.ProviderState], dict[str, str], tuple[str, ...]
    ]:
        """Return what Placement has of disks.

        :returns: the disks' providers below this compute node, the names of
            the compute nodes of those below others, and the providers below
            this one without a disk here.
        """
        present = {
            uuid: provider
            for uuid in disks
            # that of a forgotten disk is in no tree
            if (provider := self.placement.provider(uuid)) and provider.parent
        }
        root = self._root({provider.root for provider in present.values()})
        providers = {
            uuid: state.ProviderState(
                self.placement.inventories(uuid)[1],
                self.placement.provider_allocations(uuid),
            )
            for uuid, provider in present.items()
            if provider.root == root
        }
        foreign = {
            uuid: provider.name.removesuffix(f'_disk_{uuid}')
            for uuid, provider in present.items()
            if provider.root != root
        }
        orphans = (
            provider.uuid
            for provider in (self.placement.disks(root) if root else ())
            if provider.uuid not in present
            and not any(b.has_entry(provider.uuid) for b in self.backends)
        )
        return providers, foreign, tuple(sorted(orphans))

    def _root(self, roots: set[str]) -> str | None:
        """Return the provider of this compute node, None if it has none.

        If Placement does not know its name it is that of all disks.

        :param roots: of the trees that have the disks of this host.
        :raises PlacementError: there are several.
        """
        node = self.placement.provider_by_name(self.compute_node)
        if node:
            return node.uuid
        if len(roots) > 1:
            raise exception.PlacementError(
                'the disks of this host are below several compute nodes in '
                f'Placement, and none of these is named {self.compute_node}: '
                'set [diskplacer] compute_node in cinder.conf to the '
                'hypervisor hostname of this host'
            )
        return next(iter(roots), None)


def from_conf(config: cfg.ConfigOpts, stuck_after: int) -> HostReader:
    """Return the reader of the backends in cinder.conf.

    :param stuck_after: seconds after which an operation on a volume is stuck.
    :raises DiskPlacerError: cinder.conf has no VDisk Mapper backend, or lacks
        options that these need.
    """
    locks.make_directory(config.state_path)
    sections = backend_sections.read(config)
    backends = {
        (options.vdisk_backend, options.vdisk_disk_root): options
        for options in reversed(sections.values())
    }
    context = cinder_context.get_admin_context()
    return HostReader(
        tuple(base.load(options) for options in backends.values()),
        placement_client.PlacementClient.from_conf(config),
        records_.Records(context, tuple(sections), stuck_after),
        functools.partial(
            ask_nova,
            context,
            backend_sections.hosts(config, sections),
        ),
        store.moving_vdisks,
        config.diskplacer.compute_node or hypervisor.hostname(),
    )


def ask_nova(
    context: Any,
    hosts: collections.abc.Iterable[str],
    consumers: collections.abc.Iterable[str],
) -> state.Nova:
    """Return the servers of hosts, and the consumers that Nova lacks."""
    unknown = frozenset(consumers)
    migrations: dict[str, state.Migration] = {}
    elsewhere: dict[str, str] = {}
    names = frozenset(hosts)
    try:
        servers = nova_api.of_hosts(context, names)
        unknown -= servers.keys()
        if unknown:
            owners, moves, places = nova_api.consumers(context, names)
            migrations = state.migrations(owners, moves)
            elsewhere = {
                uuid: host
                for uuid, host in state.elsewhere(
                    owners, moves, places, names
                ).items()
                if uuid in unknown
            }
            if elsewhere and not nova_api.has_compute(context, names):
                # this host has another name there
                elsewhere = {}
            unknown -= owners.keys() | migrations.keys()
    except nova_server.NovaError as error:
        LOG.warning('Claims are not compared with servers: %s', error)
        return state.Nova()
    return state.Nova(
        tuple(
            (uuid, server.request)
            for uuid, server in sorted(servers.items())
            if server and server.request
        ),
        unknown,
        migrations,
        elsewhere,
    )
