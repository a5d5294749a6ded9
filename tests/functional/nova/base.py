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

"""A cloud in one process: Nova, Placement, and hosts with disks.

The disks are simulated: a host publishes their providers and reports them
over oslo.messaging as its agent would. Everything else is real.
"""

import collections
import dataclasses
import functools
import os
import sys
import time
import types
import uuid
import warnings

import fixtures
import oslo_messaging
from nova import conf as nova_conf
from nova.api.openstack.compute import routes
from nova.tests import fixtures as nova_fixtures
from nova.tests.functional import integrated_helpers
from placement import context as placement_context
from placement import db_api as placement_db
from placement.objects import inventory
from placement.objects import resource_provider
from placement.objects import trait
from placement.objects import usage
from sqlalchemy import exc

from nova_diskplacer import conf
from nova_diskplacer import reports
from nova_diskplacer.placement import inventory as disk_inventory
from nova_diskplacer.placement import ledger
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import report_listener
from tests import profile_cache
from tests.functional import services
from tests.functional.nova import volumes

services.remember()

CONF = nova_conf.CONF

VERSION = '1.36'
GB = 'CUSTOM_VDISK_GB'
MBPS = 'CUSTOM_VDISK_MBPS'
MARK = 'CUSTOM_DISKPLACER'
TRAITS = {'hdd': 'STORAGE_DISK_HDD', 'ssd': 'STORAGE_DISK_SSD'}
# Seconds that Nova may take for anything, on a busy machine.
PATIENCE = 200
# What Nova says after an attempt to build a server.
_ENDS = (
    'compute_task.build_instances.error',
    'instance.create.end',
    'instance.create.error',
)


@dataclasses.dataclass
class Disk:
    """A disk of a host; ``vdisks`` as in an agent's report."""

    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    medium: str = 'hdd'
    total_gb: int = 1000
    reserved_gb: int = 0
    total_mbps: int = 150
    health: str = 'ok'
    numa_node: int | None = None
    can_stripe: bool = False
    vdisks: list[dict] = dataclasses.field(default_factory=list)
    pressure: int | None = None


def _published(disk):
    """Return the inventories and the traits of a disk."""
    reserved = disk.reserved_gb if disk.health == 'ok' else disk.total_gb
    figures = disk_inventory.DiskFigures(
        disk.total_gb, reserved, 0, disk.total_mbps, 0
    )
    inventories = disk_inventory.inventories(figures)
    return inventories, [TRAITS[disk.medium], MARK]


class Host:
    """The disks of a compute node, in Placement and in reports."""

    def __init__(self, placement, name, provider, disks):
        self.placement = placement
        self.name = name
        self.provider = provider
        self.disks = {disk.uuid: disk for disk in disks}
        self.reporting = True
        self.cache_mode = None
        self._published = {}
        self._create(disks)

    def _create(self, disks):
        """Create the providers of disks as an agent does.

        Placement's own code writes them, without requests, which would be
        much of what a test costs.
        """
        context = placement_context.RequestContext()
        with placement_db.placement_context_manager.writer.using(context):
            for disk in disks:
                provider = resource_provider.ResourceProvider(
                    context,
                    uuid=disk.uuid,
                    name=f'{self.name}_disk_{disk.uuid}',
                    parent_provider_uuid=self.provider,
                )
                provider.create()
                inventories, traits = _published(disk)
                provider.set_inventory(
                    [
                        inventory.Inventory(
                            resource_provider=provider,
                            resource_class=name,
                            **amounts,
                        )
                        for name, amounts in inventories.items()
                    ]
                )
                provider.set_traits(
                    trait.get_all(context, filters={'name_in': traits})
                )
                self._published[disk.uuid] = inventories, traits

    def publish(self, disk):
        """Make what a disk has in Placement true."""
        if self._published[disk.uuid] == _published(disk):
            return
        provider = self.placement.get(
            f'/resource_providers/{disk.uuid}', version=VERSION
        )
        self._publish(disk, provider.body['generation'])

    def _publish(self, disk, generation):
        url = f'/resource_providers/{disk.uuid}'
        inventories, traits = _published(disk)
        self._ok(
            self.placement.put(
                url + '/inventories',
                {
                    'resource_provider_generation': generation,
                    'inventories': inventories,
                },
                version=VERSION,
            )
        )
        self._ok(
            self.placement.put(
                url + '/traits',
                {
                    'resource_provider_generation': generation + 1,
                    'traits': traits,
                },
                version=VERSION,
            )
        )
        self._published[disk.uuid] = inventories, traits

    def reconcile(self):
        """Reserve what vdisks take outside of claims, as the agent does."""
        for disk in self.disks.values():
            vdisks = [types.SimpleNamespace(**one) for one in disk.vdisks]
            # a disk without vdisks reserves nothing, whatever is claimed
            claims = self._claims(disk) if vdisks else {}
            disk.reserved_gb = ledger.reserved_gb(vdisks, claims)
            self.publish(disk)

    def bind(self, volume_id, server_id, size_gb):
        """Put a vdisk where its server claims room, or else anywhere.

        :returns: the disk's UUID.
        """

        def fitness(disk):
            own = [v for v in disk.vdisks if v['server_id'] == server_id]
            filled = sum(v['size_gb'] for v in own)
            claim = self._claims(disk).get(server_id, 0)
            return claim - filled >= size_gb, -len(own)

        disk = max(self.disks.values(), key=fitness)
        disk.vdisks.append(
            {
                'volume_id': volume_id,
                'server_id': server_id,
                'size_gb': size_gb,
            }
        )
        self.reconcile()
        return disk.uuid

    def unbind(self, volume_id):
        """Delete a vdisk."""
        for disk in self.disks.values():
            disk.vdisks = [
                one for one in disk.vdisks if one['volume_id'] != volume_id
            ]
        self.reconcile()

    def _claims(self, disk):
        found = self.placement.get(
            f'/resource_providers/{disk.uuid}/allocations', version=VERSION
        ).body['allocations']
        return {
            consumer: allocation['resources'].get(GB, 0)
            for consumer, allocation in found.items()
        }

    def used(self, disk):
        """Return what is claimed on a disk, {resource class: amount}.

        Placement's own code reads it, without a request: reports read all
        disks, and requests would be most of what a test costs.
        """
        found = usage.get_all_by_resource_provider_uuid(
            placement_context.RequestContext(), disk.uuid
        )
        return collections.Counter(
            {one.resource_class: one.usage for one in found}
        )

    def report(self):
        """Return the report that the host's agent would send now."""
        disks = []
        for disk in self.disks.values():
            used = self.used(disk)
            disks.append(
                {
                    'uuid': disk.uuid,
                    'medium': disk.medium,
                    'model': 'simulated',
                    'numa_node': disk.numa_node,
                    'can_stripe': disk.can_stripe,
                    'total_gb': disk.total_gb,
                    'reserved_gb': disk.reserved_gb,
                    'used_gb': used[GB],
                    'total_mbps': disk.total_mbps,
                    'used_mbps': used[MBPS],
                    'health': disk.health,
                    'vdisks': list(disk.vdisks),
                }
            )
            if disk.pressure is not None:
                disks[-1]['pressure'] = disk.pressure
        return {
            'version': 1,
            'host': self.name,
            'compute_node': self.name,
            'provider': self.provider,
            'cache_mode': self.cache_mode,
            'disks': disks,
        }

    @staticmethod
    def _ok(response):
        if response.status >= 300:
            raise AssertionError(response.body)
        return response.body


class Agents:
    """The agents of all hosts, as far as the scheduler meets them."""

    def __init__(self, hosts):
        self._hosts = hosts
        self._transport = oslo_messaging.get_rpc_transport(CONF)
        self._requests = reports.RequestListener(
            self._transport, self.send, self.send, 'agents'
        )
        self.start = self._requests.start
        self.stop = self._requests.stop

    def send(self):
        """Report all hosts whose agents are there."""
        for host in list(self._hosts.values()):
            if host.reporting:
                reports.send_report(self._transport, host.report())


def target_cell(databases, context, cell):
    """Target a cell as Nova does, for that context alone.

    Nova's fixture sends contexts that target no cell to the cell targeted
    last, by any thread, and gives up when threads target different cells at
    once. Here there is one cell for servers, which is the fixture's default,
    and cell0, which is only ever targeted by context.
    """
    return databases._real_target_cell(context, cell)


def _patient(name):
    """Return a method of Nova's tests that waits longer than its 5 to 20 s."""
    wait = getattr(integrated_helpers.ProviderUsageBaseTestCase, name)

    @functools.wraps(wait)
    def patient(*args, **kwargs):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return wait(*args, **kwargs)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    return patient


class CloudTestCase(integrated_helpers.ProviderUsageBaseTestCase):
    """Nova with the filter and the weighers, and hosts with disks.

    Hosts have vCPUs and memory in abundance: only disks are scarce.
    """

    compute_driver = 'fake.FakeDriver'
    hosts_count = 3
    disks_count = 6
    disk = {}
    filters = ('DiskPlacementFilter',)
    volumes_fixture = volumes.VDisks

    def setUp(self):
        self.flags(api_paste_config=self.api_paste_config(), group='wsgi')
        self.flags(
            available_filters=[
                'nova.scheduler.filters.all_filters',
                'nova_diskplacer.scheduler.filter.DiskPlacementFilter',
                'nova_diskplacer.scheduler.room.DiskRoomFilter',
            ],
            enabled_filters=[
                'ComputeFilter',
                'ComputeCapabilitiesFilter',
                'ImagePropertiesFilter',
                'ServerGroupAntiAffinityFilter',
                'ServerGroupAffinityFilter',
                *self.filters,
            ],
            weight_classes=[
                'nova.scheduler.weights.all_weighers',
                'nova_diskplacer.scheduler.weigher.DiskPlacementWeigher',
                'nova_diskplacer.scheduler.pressure_weigher.'
                'DiskPressureWeigher',
            ],
            group='filter_scheduler',
        )
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        # services may be too busy to say that they are there
        self.flags(service_down_time=3600)
        conf.register_opts(CONF)
        # reports are sent when a test says so, and not again
        self.flags(
            report_timeout=3600,
            warmup_timeout=60.0,
            group='diskplacer_scheduler',
        )
        # so that disks decide where a server goes, not memory or vCPUs, and
        # no random number does
        self.flags(
            disk_placement_weight_multiplier=1000.0,
            disk_spread_up_to=1.0,
            disk_pack_from=1.0,
            group='diskplacer_scheduler',
        )
        self.useFixture(
            fixtures.MockPatchObject(
                nova_fixtures.CellDatabases, '_wrap_target_cell', target_cell
            )
        )
        self._share_router()
        super().setUp()
        # Nova has idle threads look for work every 10 ms, which is a sixth of
        # what a test costs: https://bugs.launchpad.net/futurist/+bug/2160159
        self.useFixture(
            fixtures.MonkeyPatch(
                'futurist._thread.ThreadWorker.MAX_IDLE_FOR', 0.05
            )
        )
        self.flags(rpc_response_timeout=PATIENCE)
        self.notifier.wait_for_versioned_notifications = functools.partial(
            self.notifier.wait_for_versioned_notifications, timeout=PATIENCE
        )
        # Nova makes them errors; SQLAlchemy may be newer than Nova
        warnings.filterwarnings('ignore', category=exc.SADeprecationWarning)
        # one messaging driver serves all tests of the process, and keeps what
        # nobody has heard under a name
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.reports.listener_name',
                lambda: str(uuid.uuid4()),
            )
        )
        self._count_reports()
        profile_cache.clear()
        self.addCleanup(profile_cache.clear)
        for name in (GB, MBPS):
            self.placement.put(
                f'/resource_classes/{name}', None, version='1.7'
            )
        self.placement.put(f'/traits/{MARK}', None, version='1.6')
        self.hosts = {}
        self.volumes = self.useFixture(self.volumes_fixture(self))
        for number in range(self.hosts_count):
            self.add_host(f'host{number}')
        self.agents = Agents(self.hosts)
        self.agents.start()
        self.addCleanup(self.agents.stop)

    def api_paste_config(self):
        """Return the path of ``api-paste.ini``."""
        return os.path.join(sys.prefix, 'etc', 'nova', 'api-paste.ini')

    def _share_router(self):
        """Have the versions of Nova's API, which serve the same, share it."""
        shared = functools.cache(routes.APIRouterV21)
        self.useFixture(
            fixtures.MockPatchObject(
                routes.APIRouterV21,
                'factory',
                lambda global_config, **local_config: shared(),
            )
        )

    def _wait_for_server_parameter(
        self, server, expected_params, max_retries=10, **kwargs
    ):
        # it fails at once where a server goes to ERROR
        return super()._wait_for_server_parameter(
            server, expected_params, max_retries=40 * max_retries, **kwargs
        )

    _wait_for_assert = _patient('_wait_for_assert')
    _wait_for_instance_action_event = _patient(
        '_wait_for_instance_action_event'
    )
    _wait_for_migration_status = _patient('_wait_for_migration_status')
    _wait_for_volume_attach = _patient('_wait_for_volume_attach')
    _wait_until_deleted = _patient('_wait_until_deleted')

    def add_host(self, name, disks=None):
        """Start a compute, give it disks, and return its ``Host``."""
        self.start_host(name)
        if disks is None:
            disks = [Disk(**self.disk) for _ in range(self.disks_count)]
        provider = self._get_provider_uuid_by_host(name)
        self.hosts[name] = Host(self.placement, name, provider, disks)
        return self.hosts[name]

    def start_host(self, name):
        """Start the nova-compute of a host."""
        self._start_compute(name)

    def report(self):
        """Send reports of all hosts and wait until the scheduler has them."""
        report_listener.get_cache()
        before = collections.Counter(self._taken)
        self.agents.send()
        waiting = {
            host.provider for host in self.hosts.values() if host.reporting
        }
        end = time.monotonic() + PATIENCE
        while any(self._taken[host] <= before[host] for host in waiting):
            self.assertLess(time.monotonic(), end, 'reports were not heard')
            time.sleep(0.01)

    def _count_reports(self):
        self._taken = collections.Counter()
        update = host_disk_cache.HostDiskCache.update

        def counted(cache, report):
            update(cache, report)
            self._taken[report['provider']] += 1

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.scheduler.host_disk_cache.HostDiskCache.update',
                counted,
            )
        )

    def flavor(self, **extra_specs):
        """Create a flavor with ``diskplacer:`` extra specs; its ID."""
        return self._create_flavor(
            memory_mb=512,
            vcpu=1,
            disk=1,
            ephemeral=0,
            extra_spec={
                f'diskplacer:{name}': str(value)
                for name, value in extra_specs.items()
            },
        )

    def settled(self, server):
        """Return the server once it is built or given up."""
        # asking is work for a process that is building it, and many maybe
        listening = time.monotonic() + 5
        while not self._ended(server) and time.monotonic() < listening:
            time.sleep(0.05)
        end = time.monotonic() + 3 * PATIENCE
        while True:
            server = self.api.get_server(server['id'])
            if server['status'] == 'ACTIVE' or 'fault' in server:
                return server
            self.assertLess(time.monotonic(), end, server)
            time.sleep(0.2)

    def _ended(self, server):
        """Return whether an attempt to build a server is said to have ended.

        The server's status may be of the moment before.
        """
        return any(
            server['id'] in str(one['payload'])
            for one in list(self.notifier.versioned_notifications)
            if one['event_type'] in _ENDS
        )

    def request(self, flavor, **kwargs):
        """Return the body of a request for a server."""
        return {
            'server': {
                **self._build_server(flavor_id=flavor, networks='none'),
                **kwargs,
            }
        }

    def boot(self, flavor, status='ACTIVE', **kwargs):
        """Boot a server and return it when it has that status."""
        server = self.api.post_server(self.request(flavor, **kwargs))
        server = self.settled(server)
        self.assertEqual(status, server['status'], server.get('fault'))
        return server

    def attach(self, server, volume_id):
        """Attach a volume to a server."""
        self.api.post_server_volume(
            server['id'], {'volumeAttachment': {'volumeId': volume_id}}
        )
        self._wait_for_volume_attach(server['id'], volume_id)

        def bound():
            status = self.volumes.volumes[volume_id]['status']
            self.assertEqual('in-use', status)
            self.assertIn(volume_id, self.volumes.places)

        self._wait_for_assert(bound)

    def reconcile(self):
        """Do what all agents do by themselves: reserve and report."""
        for host in self.hosts.values():
            host.reconcile()
        self.report()

    def refuse(self, flavor, **kwargs):
        """Boot a server for which there must be no valid host."""
        server = self.boot(flavor, status='ERROR', **kwargs)
        self.assertIn('No valid host', server['fault']['message'])
        self.assertEqual({}, self.allocations(server['id']))
        return server

    def allocations(self, consumer):
        """Return a consumer's allocations, {provider: resources}."""
        body = self.placement.get(
            f'/allocations/{consumer}', version=VERSION
        ).body
        return {
            provider: allocation['resources']
            for provider, allocation in body['allocations'].items()
        }

    def claims(self, consumer):
        """Return what a consumer claims, {host: {disk: resources}}."""
        allocations = self.allocations(consumer)
        claims = {
            host.name: {
                disk: allocations[disk]
                for disk in host.disks
                if disk in allocations
            }
            for host in self.hosts.values()
        }
        return {host: disks for host, disks in claims.items() if disks}

    def host_of(self, server):
        """Return the ``Host`` that a server is on."""
        return self.hosts[
            self.api.get_server(server['id'])['OS-EXT-SRV-ATTR:host']
        ]

    def assert_claims(self, server, amounts, mbps=None):
        """Check a server's claims on its host's disks, and only there.

        :param amounts: GiB claimed on each disk, in any order.
        :param mbps: MB/s claimed on each disk, in any order.
        :returns: UUIDs of the disks.
        """
        host = self.host_of(server).name
        claims = self.claims(server['id'])
        self.assertEqual([host], list(claims))
        self.assertEqual(
            sorted(amounts), sorted(c[GB] for c in claims[host].values())
        )
        self.assertEqual(
            sorted(mbps or []),
            sorted(c[MBPS] for c in claims[host].values() if MBPS in c),
        )
        self.assert_not_oversold()
        return set(claims[host])

    def assert_distinct_disks(self, servers, amounts):
        """Check that servers are active and claim disks of their own.

        :param amounts: GiB that each claims on each disk, in any order.
        :returns: UUIDs of the disks.
        """
        taken = set()
        for server in servers:
            server = self.settled(server)
            self.assertEqual('ACTIVE', server['status'], server.get('fault'))
            disks = self.assert_claims(server, amounts)
            self.assertEqual(set(), taken & disks)
            taken |= disks
        return taken

    def assert_not_oversold(self):
        """Check every disk's usage against its inventory."""
        for host in self.hosts.values():
            for disk in host.disks.values():
                used = host.used(disk)
                self.assertLessEqual(
                    used[GB], disk.total_gb - disk.reserved_gb
                )
                self.assertLessEqual(used[MBPS], disk.total_mbps)

    def assert_unused(self):
        """Check that nothing is claimed on any disk."""
        for host in self.hosts.values():
            for disk in host.disks.values():
                self.assertEqual(0, host.used(disk)[GB])
