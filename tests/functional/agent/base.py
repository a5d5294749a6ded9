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

"""An agent's work with real Placement in the process.

The disks are made up where a test does not say otherwise.
"""

import dataclasses
import os
import queue
import threading
import time
import uuid

import fixtures
import oslo_messaging
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exc
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from oslo_config import cfg
from oslotest import base
from placement.tests.functional.fixtures import placement as placement_fixture

from nova_diskplacer import conf as options
from nova_diskplacer import reports
from nova_diskplacer.agent import service
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks
from tests.functional import services

services.remember()

NODE = 'compute-1.example.org'

# Seconds until something must have happened, on a busy machine.
PATIENCE = 200


class Placement(fixtures.Fixture):
    """Real Placement behind an adapter that counts and can fail.

    ``requests`` lists (method, URL) of what was asked. While ``away``, it
    cannot be reached. ``before`` is called with them before each request.
    """

    def _setUp(self):
        service = self.useFixture(placement_fixture.PlacementFixture())
        self._adapter = adapter.Adapter(
            session.Session(
                auth=token_endpoint.Token(service.endpoint, service.token)
            ),
            service_type='placement',
        )
        # the database is in memory and not for several threads at once
        self._lock = threading.RLock()
        self.requests = []
        self.away = False
        self.before = lambda method, url: None
        for method in ('get', 'put', 'post', 'delete'):
            setattr(self, method, self._method(method))

    def _method(self, name):
        def call(url, **arguments):
            with self._lock:
                self.requests.append((name, url))
                if self.away:
                    raise ks_exc.ConnectFailure(f'{url}: {uuid.uuid4()}')
                self.before(name, url)
                return getattr(self._adapter, name)(url, **arguments)

        return call

    def ask(self, method, url, body=None):
        """Do what another service does; not counted."""
        with self._lock:
            response = getattr(self._adapter, method)(
                url, json=body, microversion='1.36', raise_exc=False
            )
        if response.status_code >= 300:
            raise AssertionError(response.text)
        return response.json() if response.content else None

    def start_compute(self, name=NODE):
        """Create a compute node's provider, and return its UUID."""
        provider = str(uuid.uuid4())
        self.ask(
            'post', '/resource_providers', {'name': name, 'uuid': provider}
        )
        return provider

    def claim(self, consumer, resources):
        """Claim {disk: {resource class: amount}} for a consumer."""
        self.ask(
            'put',
            f'/allocations/{consumer}',
            {
                'allocations': {
                    disk: {'resources': amounts}
                    for disk, amounts in resources.items()
                },
                'consumer_generation': None,
                'project_id': 'project',
                'user_id': 'user',
            },
        )

    def unclaim(self, consumer):
        """Delete a consumer's allocations as Nova does with a server."""
        self.ask('delete', f'/allocations/{consumer}')

    def inventory(self, disk, name=placement_client.GB):
        """Return (total, reserved) of a disk; None if it offers nothing."""
        with self._lock:
            found = self.ask('get', f'/resource_providers?uuid={disk}')
            if not found['resource_providers']:
                return None
            inventories = self.ask(
                'get', f'/resource_providers/{disk}/inventories'
            )['inventories']
        if name not in inventories:
            return None
        return inventories[name]['total'], inventories[name]['reserved']

    def provider(self, disk):
        """Return a disk's provider."""
        return self.ask('get', f'/resource_providers/{disk}')

    def traits(self, disk):
        """Return a disk's traits."""
        return set(
            self.ask('get', f'/resource_providers/{disk}/traits')['traits']
        )


class Disks(fixtures.Fixture):
    """The disks of a host, as the agent finds them: ``{uuid: Disk}``."""

    def _setUp(self):
        self._disks = {}
        self._elsewhere = {}
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.discover', self._discover
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.inspect', self._inspect
            )
        )

    def _discover(self, disk_root, kind=None):
        return [self._disks[uuid_] for uuid_ in sorted(self._disks)]

    def _inspect(self, disk_root, uuid_, patience=0.0):
        disks = {**self._elsewhere, **self._disks}
        return disks.get(uuid_, discover.missing(uuid_, ''))

    def all(self):
        """Return the disks as ``discover`` does."""
        return self._discover('')

    def add(self, **values):
        """Add a disk of 100 GiB, and return its UUID."""
        disk = self._make(**values)
        self._disks[disk.uuid] = disk
        return disk.uuid

    def _make(self, **values):
        return fake_disks.make_disk(
            **{'uuid': str(uuid.uuid4()), 'numa_node': 0, **values}
        )

    def change(self, uuid_, **values):
        """Change a disk."""
        self._disks[uuid_] = dataclasses.replace(self._disks[uuid_], **values)

    def hold(self, uuid_, *owners, size_gb=10):
        """Have a disk hold one vdisk for each owner."""
        self.change(
            uuid_,
            vdisks=tuple(
                VDisk(
                    f'volume-{number}',
                    str(uuid.uuid4()),
                    owner,
                    size_gb * GIB,
                )
                for number, owner in enumerate(owners)
            ),
        )

    def lose(self, uuid_):
        """Have a disk disappear; its entry stays."""
        self._disks[uuid_] = discover.missing(uuid_, f'/disks/{uuid_}')

    def forget(self, uuid_):
        """Remove a disk's entry; returns the disk."""
        return self._disks.pop(uuid_)

    def add_elsewhere(self):
        """Return a new disk that the host of the test does not see."""
        disk = self._make()
        self._elsewhere[disk.uuid] = disk
        return disk

    def put_back(self, disk):
        """Add a disk that was there before."""
        self._disks[disk.uuid] = disk


class TestCase(base.BaseTestCase):
    """Real Placement, and disks that are made up unless told otherwise."""

    simulated = True

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.placement = self.useFixture(Placement())
        self.client = placement_client.PlacementClient(self.placement)
        if self.simulated:
            self.disks = self.useFixture(Disks())

    def logged(self, text):
        """Return how many times ``text`` was logged."""
        return self.log.output.count(text)

    def wait_for(self, condition):
        """Wait until ``condition()`` is true, and return what it returns."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            self.assertLess(time.monotonic(), end, 'it never came true')
            time.sleep(0.02)
        return value


class Listener(fixtures.Fixture):
    """Hears the reports of one host; ``last`` is the newest."""

    def __init__(self, transport, host):
        super().__init__()
        self._transport = transport
        self._host = host

    def _setUp(self):
        self.last = None
        self.arrived = queue.Queue()
        self.heartbeats = queue.Queue()
        listener = reports.ReportListener(
            self._transport, self._take, str(uuid.uuid4()), self._confirm
        )
        listener.start()
        self.addCleanup(listener.stop)

    def _take(self, report):
        if report['host'] == self._host:
            self.last = report
            self.arrived.put(report)

    def _confirm(self, heartbeat):
        if heartbeat['host'] == self._host:
            self.heartbeats.put(heartbeat)

    def disk(self, uuid_):
        """Return what the newest report says of a disk."""
        found = self.last['disks'] if self.last else []
        return next((disk for disk in found if disk['uuid'] == uuid_), None)


class AgentTestCase(TestCase):
    """The whole agent: real Placement, in-memory messaging."""

    report_interval = 2

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        options.register_opts(self.conf)
        self.conf.register_opt(cfg.StrOpt('host'))
        self.conf([])
        self.conf.set_override('compute_node', NODE, 'diskplacer')
        self.conf.set_override(
            'disk_root',
            self.useFixture(fixtures.TempDir()).path,
            'diskplacer',
        )
        self.conf.set_override(
            'state_dir',
            self.useFixture(fixtures.TempDir()).path,
            'diskplacer_agent',
        )
        # a libvirt in the process, whose only domain is not Nova's
        self.conf.set_override(
            'libvirt_uri', 'test:///default', 'diskplacer_agent'
        )
        self.nova_conf = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )
        self.conf.set_override(
            'nova_conf', [self.nova_conf], 'diskplacer_agent'
        )
        self.conf.set_override('watch_interval', 1, 'diskplacer_agent')
        self.conf.set_override(
            'report_interval', self.report_interval, 'diskplacer_agent'
        )
        for name in ('idle_interval', 'heartbeat_interval'):
            self.conf.set_override(
                name, self.report_interval, 'diskplacer_agent'
            )
        # oslo.messaging knows its own options in the global object alone
        self.transport = oslo_messaging.get_rpc_transport(
            cfg.CONF, url='fake:/'
        )
        # one messaging driver serves all tests of the process, and keeps what
        # nobody has heard under a name
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.reports.listener_name',
                lambda: str(uuid.uuid4()),
            )
        )
        self.conf.set_override('host', f'host-{uuid.uuid4()}')
        self.reports = self.useFixture(
            Listener(self.transport, self.conf.host)
        )

    def start_agent(self):
        agent = service.Agent(self.conf, self.client, self.transport)
        work = threading.Thread(target=agent.run, daemon=True)
        work.start()

        def stop():
            agent.stop()
            # it may be looking at disks, or log what another test counts
            keeping = [
                thread
                for thread in threading.enumerate()
                if thread.name.endswith('(_keep)')
            ]
            for thread in (work, *keeping):
                thread.join(PATIENCE)
                self.assertFalse(thread.is_alive())

        self.addCleanup(stop)
        return agent

    def health(self, disk):
        found = self.reports.disk(disk)
        return found and found['health']
