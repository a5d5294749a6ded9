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

"""Ledger, claims and content agree after operations in any order.

Servers are resized, shelved, deleted and so on by real Nova with real
Placement. The agents look between any two of Nova's writes to Placement, and
any of these may be lost. Then the audit and the map are asked.

``DISKPLACER_EXAMPLES`` is the number of random sequences; a few, always the
same, without it.
"""

import collections
import contextlib
import datetime
import os
import threading
import time
from unittest import mock

import fixtures
from hypothesis import HealthCheck
from hypothesis import Phase
from hypothesis import settings
from hypothesis import stateful
from hypothesis import strategies as st
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from nova import exception as nova_exc
from nova.cmd import manage
from nova.scheduler.client import report
from nova.tests.functional.api import client as api_client
from testtools import content

from cinder_vdisk_mapper.audit import claim_checks
from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from nova_diskplacer import exception
from nova_diskplacer import flavor as flavors
from nova_diskplacer.client import facts
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import inventory
from nova_diskplacer.placement import ledger
from tests.fakes import disks as fake_disks
from tests.functional.nova import base
from tests.functional.nova import test_volumes

EXAMPLES = int(os.environ.get('DISKPLACER_EXAMPLES', '0'))
STEPS = 9
SERVERS = 3
# seconds that Nova may take to end what it can no longer end
TAIL = 20

# Statuses of servers to which nothing is done.
QUIET = ('ACTIVE', 'ERROR', 'VERIFY_RESIZE', 'SHELVED_OFFLOADED')


class Host(base.Host):
    """A host whose agent and driver use the ledger as they do."""

    def __init__(self, client, *args):
        self.client = client
        super().__init__(*args)

    def seen(self, uuid):
        """Return a disk as it is discovered."""
        disk = self.disks[uuid]
        return fake_disks.make_disk(
            uuid,
            disk.total_gb,
            held=[
                VDisk(
                    f'volume-{one["volume_id"]}',
                    one['volume_id'],
                    one['server_id'],
                    one['size_gb'] * GIB,
                )
                for one in disk.vdisks
            ],
        )

    def reconcile(self):
        for uuid, disk in self.disks.items():
            figures = inventory.sync_disk(
                self.client, uuid, lambda uuid=uuid: self.seen(uuid)
            )
            disk.reserved_gb = min(figures.reserved_gb, disk.total_gb)

    def bind(self, volume_id, server_id, size_gb):
        seen = [self.seen(uuid) for uuid in self.disks]
        claims = {
            disk.uuid: self.client.provider_allocations(disk.uuid)
            for disk in seen
        }

        def unfilled(disk):
            claim = claims[disk.uuid].get(server_id, {}).get(base.GB, 0)
            return ledger.unfilled_gb(disk.vdisks, server_id, claim)

        def free(disk):
            return inventory.compute_figures(disk, claims[disk.uuid]).free_gb

        fit = [disk for disk in seen if unfilled(disk) >= size_gb]
        chosen = next(iter(fit), None) or max(seen, key=free)
        if not fit and free(chosen) < size_gb:
            raise nova_exc.InvalidInput(f'no room for volume {volume_id}')
        self.disks[chosen.uuid].vdisks.append(
            {
                'volume_id': volume_id,
                'server_id': server_id,
                'size_gb': size_gb,
            }
        )
        self.reconcile()
        return chosen.uuid


class Interference:
    """What happens while Nova writes to Placement.

    Before write ``look_at`` the agents look. ``lose`` are writes that are
    lost, before they arrive or after.
    """

    def __init__(self, test):
        self._test = test
        self._lock = threading.Lock()
        self.clear()
        for name in ('put', 'post', 'delete'):
            self._wrap(name)

    def clear(self):
        self.look_at, self.lose, self.arrives = None, (), False
        self.lost = self.writes = 0

    def plan(self, look_at, lose, arrives):
        self.clear()
        self.look_at, self.lose, self.arrives = look_at, lose, arrives

    def _wrap(self, name):
        real = getattr(report.SchedulerReportClient, name)

        def call(client, *args, **kwargs):
            with self._lock:
                number, self.writes = self.writes, self.writes + 1
                lost = number in self.lose
                self.lost += lost
                if lost:
                    self._test.patience = TAIL
            if number == self.look_at:
                self._test.look()
            if lost and not self.arrives:
                raise ks_exc.ConnectFailure(f'write {number} is lost')
            answer = real(client, *args, **kwargs)
            if lost:
                raise ks_exc.ConnectFailure(f'answer {number} is lost')
            return answer

        self._test.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.client.report.SchedulerReportClient.' + name,
                call,
            )
        )


class ClaimsTestCase(base.CloudTestCase):
    hosts_count = 2
    disks_count = 2
    disk = {'total_gb': 6}

    def setUp(self):
        super().setUp()
        self.flags(allow_resize_to_same_host=True, shelved_offload_time=0)
        self.interference = Interference(self)
        self.flavors = [
            self.flavor(vdisks=number, vdisk_gb=1, **more)
            for number in (1, 2, 4)
            for more in ({'mapping': 'consolidated'}, {'vdisks_per_disk': 4})
        ]
        self.flavors += [
            self.flavor(vdisks=2, vdisk_gb=1, vdisk_mbps=20),
            self._create_flavor(
                memory_mb=512, vcpu=1, disk=1, ephemeral=0, extra_spec={}
            ),
        ]

    def add_host(self, name, disks=None):
        fixture = self.placement.fixture
        self.client = placement_client.PlacementClient(
            adapter.Adapter(
                session.Session(
                    auth=token_endpoint.Token(fixture.endpoint, fixture.token)
                ),
                service_type='placement',
            )
        )
        self.start_host(name)
        self.hosts[name] = Host(
            self.client,
            self.placement,
            name,
            self._get_provider_uuid_by_host(name),
            [base.Disk(**self.disk) for _ in range(self.disks_count)],
        )
        return self.hosts[name]

    def look(self):
        """Do what the agents do when they look."""
        for host in self.hosts.values():
            # they look again when somebody else writes all the time
            with contextlib.suppress(exception.Conflict):
                host.reconcile()

    def audit(self):
        """Return the findings of the audit about claims, of all hosts."""
        return [
            one
            for host in self.hosts.values()
            for one in claim_checks.check(self.state_of(host))
        ]

    def state_of(self, host):
        providers = {
            uuid: state.ProviderState(
                self.client.inventories(uuid)[1],
                self.client.provider_allocations(uuid),
            )
            for uuid in host.disks
        }
        nova = self.nova(
            host, {one for held in providers.values() for one in held.claims}
        )
        return state.HostState(
            (),
            tuple(host.seen(uuid) for uuid in host.disks),
            providers,
            nova=nova,
        )

    def list(self, path, query):
        """Return what Nova's API lists for the driver's account."""
        self.admin_api.microversion = '2.59'
        found = self.admin_api.api_get(f'{path}?{query}').body
        (name,) = found.keys() - {'servers_links', 'migrations_links'}
        return found[name]

    def nova(self, host, consumers):
        """Return what the audit of a host gets from Nova."""
        migrations = {
            one['uuid']: (one['instance_uuid'], one['status'])
            for one in self.list('/os-migrations', f'host={host.name}')
        }
        rows = self.list('/servers/detail', 'all_tenants=1&soft_deleted=1')
        servers = {
            one['id']: (one['status'], one['OS-EXT-STS:task_state'])
            for one in rows
        }
        requests = {
            one['id']: flavors.parse(one['flavor']['extra_specs'])
            for one in rows
            if one['OS-EXT-SRV-ATTR:host'] == host.name
            and servers[one['id']] in (('ACTIVE', None), ('ERROR', None))
        }
        return state.Nova(
            tuple((uuid, one) for uuid, one in requests.items() if one),
            frozenset(consumers - servers.keys() - migrations.keys()),
            state.migrations(servers, migrations),
        )

    def map(self):
        """Return the findings of the map."""
        servers = {
            one['id']: facts.Server(
                one['id'],
                one['name'],
                one['status'],
                datetime.datetime.now(datetime.UTC),
            )
            for one in self.api.get_servers()
        }
        disks, claims, vdisks = {}, {}, []
        for host in self.hosts.values():
            for uuid, disk in host.disks.items():
                disks[uuid] = facts.Disk(uuid, host.name)
                claims[uuid] = {
                    consumer: claim[base.GB]
                    for consumer, claim in (
                        self.client.provider_allocations(uuid).items()
                    )
                    if base.GB in claim
                }
                vdisks += [
                    facts.VDisk(
                        one['volume_id'],
                        uuid,
                        one['size_gb'],
                        one['server_id'],
                    )
                    for one in disk.vdisks
                ]
        known = facts.Facts(disks, claims, vdisks, servers)
        return vdisk_map.findings(
            known,
            vdisk_map.entries(known),
            datetime.datetime.now(datetime.UTC),
        )

    def quiet(self, server_id):
        """Return a server when Nova does nothing to it; None if it is gone."""
        begin = time.monotonic()
        while True:
            try:
                server = self.api.get_server(server_id)
            except api_client.OpenStackApiNotFoundException:
                return None
            if (
                server['status'] in QUIET
                and not server['OS-EXT-STS:task_state']
                and (
                    server['status'] != 'SHELVED_OFFLOADED'
                    or not server['OS-EXT-SRV-ATTR:host']
                )
            ) or time.monotonic() > begin + self.patience:
                return server
            time.sleep(0.05)

    def leave(self, server_id, status):
        """Wait until a server has another status."""
        begin = time.monotonic()
        while self.api.get_server(server_id)['status'] == status:
            if time.monotonic() > begin + self.patience:
                break
            time.sleep(0.05)

    def oversold(self):
        """Return the disks that hold more than they have, and what they do.

        Nova gives the claim of a migration to its server or drops it, so it
        counts for the vdisks of that server.
        """
        found = {}
        for host in self.hosts.values():
            nova = self.state_of(host).nova
            for uuid, disk in host.disks.items():
                taken = collections.Counter()
                for consumer, claim in self.client.provider_allocations(
                    uuid
                ).items():
                    migration = nova.migrations.get(consumer)
                    owner = migration.server if migration else consumer
                    taken[owner] += claim.get(base.GB, 0)
                held = collections.Counter()
                for one in disk.vdisks:
                    held[one['server_id']] += one['size_gb']
                total = sum((taken | held).values())
                if total > disk.total_gb:
                    found[uuid] = dict(taken), dict(held)
        return found

    def repair(self, found):
        """Do what the documentation tells an operator to do."""
        hosts = {
            uuid: host for host in self.hosts.values() for uuid in host.disks
        }
        for one in found:
            host = hosts.get(one.disk)
            if one.repair == findings.RELEASE:
                inventory.release_claim(
                    self.client,
                    one.disk,
                    one.owner,
                    lambda host=host, one=one: host.seen(one.disk),
                )
            elif one.kind == 'claim-without-server':
                self.placement.delete(f'/allocations/{one.owner}')
        for server in self.api.get_servers():
            if server['status'] in ('ACTIVE', 'ERROR'):
                with mock.patch('sys.stdout'):
                    manage.PlacementCommands().heal_allocations(
                        instance_uuid=server['id']
                    )
        self.look()
        for host in self.hosts.values():
            held = self.state_of(host)
            for one in claim_checks.check(held):
                if one.repair == findings.CLAIM:
                    inventory.ensure_claim(
                        self.client,
                        one.disk,
                        one.owner,
                        claim_checks.extended_claim(held, one.owner, one.disk),
                        lambda host=host, one=one: host.seen(one.disk),
                    )

    def test_operations_in_any_order(self):
        Walk.cloud = self
        examples = EXAMPLES or 3
        stateful.run_state_machine_as_test(
            Walk,
            settings=settings(
                max_examples=examples,
                stateful_step_count=STEPS,
                derandomize=not EXAMPLES,
                deadline=None,
                database=None,
                # what happens takes its time, and is not the same each time
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
        self.addDetail('operations', content.text_content(repr(RUN)))
        self.assertLessEqual(examples, RUN['boot'])


PICK = st.integers(0, 99)
# before which write of an operation the agents look
LOOK = st.one_of(st.none(), st.integers(0, 6))
# which writes are lost: most of the time none
LOSE = st.one_of(
    st.just(()),
    st.just(()),
    st.builds(
        lambda first, number: tuple(range(first, first + number)),
        st.integers(0, 6),
        st.integers(1, 4),
    ),
)


# how often each operation was done, and one was disturbed by a lost write
RUN = collections.Counter()


class Walk(stateful.RuleBasedStateMachine):
    """Operations on some servers and their volumes."""

    cloud = None

    def __init__(self):
        super().__init__()
        self.servers = []
        self.done = []
        self.statuses = {}
        self.faults = self.lost = False
        self.cloud.patience = base.PATIENCE

    @stateful.initialize(
        pick=PICK, volumes=st.booleans(), look=LOOK, faults=st.booleans()
    )
    def begin(self, pick, volumes, look, faults):
        self.faults = faults
        self.boot(pick, volumes, look, (), False)

    # what Nova is told

    @contextlib.contextmanager
    def operation(self, name, server_id, plan=(None, (), False)):
        """Note and disturb an operation, and wait for its end."""
        self.done.append((name, server_id, plan))
        look, lose, arrives = plan
        inter = self.cloud.interference
        inter.plan(look, lose if self.faults else (), arrives)
        try:
            with contextlib.suppress(
                api_client.OpenStackApiException, AssertionError
            ):
                yield
            if server_id:
                self.cloud.quiet(server_id)
        finally:
            lost = inter.lost > 0
            self.lost |= lost
            inter.clear()
        self.check()
        found = {one: self.cloud.quiet(one) for one in self.servers}
        self.statuses = {
            one: server['status'] for one, server in found.items() if server
        }
        RUN[name.partition(' ')[0]] += 1
        RUN['lost'] += lost

    def pick(self, number, *statuses):
        """Return one of the servers with these statuses, None if none has."""
        found = [
            one
            for one in map(self.cloud.quiet, self.servers)
            if one and one['status'] in statuses
        ]
        return found[number % len(found)] if found else None

    def has(self, *statuses):
        return any(one in statuses for one in self.statuses.values())

    def act(self, server, plan, **action):
        (name,) = action
        with self.operation(name, server['id'], plan):
            self.cloud.api.post_server_action(server['id'], action)
            if name in ('confirmResize', 'revertResize'):
                self.cloud.leave(server['id'], server['status'])

    @stateful.precondition(lambda self: len(self.statuses) < SERVERS)
    @stateful.rule(
        pick=PICK,
        volumes=st.booleans(),
        look=LOOK,
        lose=LOSE,
        late=st.booleans(),
    )
    def boot(self, pick, volumes, look, lose, late):
        pick %= len(self.cloud.flavors)
        flavor = self.cloud.flavors[pick]
        number = (1, 1, 2, 2, 4, 4, 2, 0)[pick]
        kwargs = {}
        if volumes and number:
            kwargs['block_device_mapping_v2'] = test_volumes.blank(number, 1)
        server = self.cloud.api.post_server(
            self.cloud.request(flavor, **kwargs)
        )
        self.servers.append(server['id'])
        with self.operation(f'boot {pick}', server['id'], (look, lose, late)):
            pass

    @stateful.precondition(lambda self: self.has('ACTIVE'))
    @stateful.rule(
        pick=PICK, flavor=PICK, look=LOOK, lose=LOSE, late=st.booleans()
    )
    def resize(self, pick, flavor, look, lose, late):
        server = self.pick(pick, 'ACTIVE')
        if server:
            id_ = self.cloud.flavors[flavor % len(self.cloud.flavors)]
            self.act(server, (look, lose, late), resize={'flavorRef': id_})

    @stateful.precondition(lambda self: self.has('VERIFY_RESIZE'))
    @stateful.rule(pick=PICK, look=LOOK, lose=LOSE, late=st.booleans())
    def confirm(self, pick, look, lose, late):
        server = self.pick(pick, 'VERIFY_RESIZE')
        if server:
            self.act(server, (look, lose, late), confirmResize=None)

    @stateful.precondition(lambda self: self.has('VERIFY_RESIZE'))
    @stateful.rule(pick=PICK, look=LOOK, lose=LOSE, late=st.booleans())
    def revert(self, pick, look, lose, late):
        server = self.pick(pick, 'VERIFY_RESIZE')
        if server:
            self.act(server, (look, lose, late), revertResize=None)

    @stateful.precondition(lambda self: self.has('ACTIVE'))
    @stateful.rule(pick=PICK, look=LOOK, lose=LOSE, late=st.booleans())
    def shelve(self, pick, look, lose, late):
        server = self.pick(pick, 'ACTIVE')
        if server:
            self.act(server, (look, lose, late), shelve=None)

    @stateful.precondition(lambda self: self.has('SHELVED_OFFLOADED'))
    @stateful.rule(pick=PICK, look=LOOK, lose=LOSE, late=st.booleans())
    def unshelve(self, pick, look, lose, late):
        server = self.pick(pick, 'SHELVED_OFFLOADED')
        if server:
            self.act(server, (look, lose, late), unshelve=None)

    @stateful.precondition(lambda self: self.statuses)
    @stateful.rule(pick=PICK, look=LOOK, lose=LOSE, late=st.booleans())
    def delete(self, pick, look, lose, late):
        server = self.pick(pick, *QUIET)
        if server:
            with self.operation('delete', server['id'], (look, lose, late)):
                self.cloud.api.delete_server(server['id'])
                self.cloud._wait_until_deleted(server)

    # volumes

    def volumes_of(self, server_id):
        return sorted(self.cloud.volumes.volume_ids_for_instance(server_id))

    @stateful.precondition(lambda self: self.has('ACTIVE'))
    @stateful.rule(pick=PICK, volume=PICK, new=st.booleans())
    def attach(self, pick, volume, new):
        server = self.pick(pick, 'ACTIVE')
        if not server:
            return
        known = sorted(
            id_
            for id_, one in self.cloud.volumes.volumes.items()
            if one['status'] == 'available' and id_ in self.mine
        )
        if new or not known:
            id_ = self.cloud.volumes.create(1)
        else:
            id_ = known[volume % len(known)]
        with self.operation('attach', server['id']):
            self.cloud.api.post_server_volume(
                server['id'], {'volumeAttachment': {'volumeId': id_}}
            )
            self.settle_volume(id_)

    @property
    def mine(self):
        return set(self.cloud.volumes.places)

    def settle_volume(self, id_):
        end = time.monotonic() + self.cloud.patience
        volumes = self.cloud.volumes.volumes
        while volumes[id_]['status'] not in ('in-use', 'available'):
            if time.monotonic() > end:
                break
            time.sleep(0.05)

    @stateful.precondition(lambda self: self.has('ACTIVE'))
    @stateful.rule(pick=PICK, volume=PICK, gone=st.booleans())
    def detach(self, pick, volume, gone):
        server = self.pick(pick, 'ACTIVE')
        attached = self.volumes_of(server['id']) if server else []
        if not attached:
            return
        id_ = attached[volume % len(attached)]
        with self.operation('detach', server['id']):
            self.cloud.api.delete_server_volume(server['id'], id_)
            self.cloud._wait_for_volume_detach(server['id'], id_)
            if gone:
                self.cloud.volumes._delete(None, id_)

    @stateful.rule()
    def agents_look(self):
        self.cloud.reconcile()

    # what must hold

    def check(self):
        """Compare ledger, claims, content and what the commands say."""
        cloud_ = self.cloud
        end = time.monotonic() + cloud_.patience
        while True:
            cloud_.look()
            found = cloud_.audit()
            wrong = [*found, *cloud_.map()]
            if not wrong or time.monotonic() > end or self.lost:
                break
            time.sleep(0.2)
        if self.lost:
            cloud_.repair(found)
            cloud_.look()
            # what was to come and has lost its claim is the server's loss
            wrong = [
                one for one in cloud_.audit() if one.kind != 'without-vdisks'
            ]
        cloud_.assertEqual([], wrong, self.done)
        cloud_.assertEqual({}, cloud_.oversold(), self.done)
        cloud_.report()

    def teardown(self):
        self.cloud.interference.clear()
        for server_id in self.servers:
            server = self.cloud.quiet(server_id)
            if server:
                self.cloud._delete_server(server)
        for volume_id in list(self.cloud.volumes.volumes):
            if volume_id in self.mine:
                self.cloud.volumes._delete(None, volume_id)
        self.cloud.look()
        for host in self.cloud.hosts.values():
            for uuid in host.disks:
                for consumer in self.cloud.client.provider_allocations(uuid):
                    self.cloud.assertTrue(self.lost, self.done)
                    self.cloud.placement.delete(f'/allocations/{consumer}')
        self.cloud.reconcile()
