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

"""Cinder in one process: API, scheduler, and the driver on two hosts.

Placement is real too, in the same process; the disks are XFS on loop
devices, published by the agent's own code. Only Nova's API is a stub.
"""

import contextlib
import os
import sys
import time
import uuid
from unittest import mock

import cinder.privsep
import fixtures
import os_brick.privileged
from cinder import context
from cinder import service
from cinder.api.middleware import auth
from cinder.tests.functional import functional_helpers
from cinder.tests.functional.api import client
from cinder.tests.unit import fake_constants as fake
from cinder.volume import configuration
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from placement import deploy
from placement.tests.functional.fixtures import placement as placement_fixture

from cinder_vdisk_mapper import conf
from nova_diskplacer.agent import placement_sync
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.placement import client as placement_client
from tests import loops
from tests.functional import services
from tests.functional.cinder import stubs

services.remember()

CONF = cfg.CONF
CONF.import_opt('scheduler_default_filters', 'cinder.scheduler.host_manager')
CONF.import_opt(
    'volume_backend_name',
    'cinder.volume.driver',
    configuration.SHARED_CONF_GROUP,
)

#: where Cinder's wheel puts its configuration
ETC = os.path.join(sys.prefix, 'etc', 'cinder')

PROJECT = fake.PROJECT_ID

#: Cinder host without backend -> number of disks
HOSTS = {'host1': 3, 'host2': 1}

DRIVER = 'cinder_vdisk_mapper.driver.VDiskMapperDriver'

#: seconds that Cinder may take for anything, on a busy machine
PATIENCE = 400


class _Impatient:
    """The module time of a cinder-scheduler that is starting."""

    @staticmethod
    def sleep(seconds):
        time.sleep(seconds / 100)


class Host:
    """A compute node with disks, and the agent's work on it."""

    def __init__(self, name, root, client):
        self.name = name
        self.root = root
        self.client = client
        self.sync = placement_sync.PlacementSync(client, name)

    def disks(self):
        """Return the disks of the host, by UUID."""
        return {disk.uuid: disk for disk in discover.discover(self.root)}

    def publish(self):
        """Do as the agent does when it looks at the disks."""
        services.reconcile(self.sync, lambda: [*self.disks().values()])

    def fill(self, uuid, size_gb):
        """Have somebody else's vdisk take GiB of a disk."""
        path = os.path.join(self.root, uuid)
        vdisks.create(path, 'theirs', '', None, size_gb * GIB)

    def reserved(self):
        """Return the reserved GiB of each disk in Placement."""
        return {
            uuid: self.client.inventories(uuid)[1][placement_client.GB][
                'reserved'
            ]
            for uuid in self.disks()
        }


@loops.needs_root
class CinderTestCase(functional_helpers._FunctionalTestBase):
    """Two hosts whose disks are 5 GiB each, of which 4 are for vdisks."""

    _osapi_version = '3.71'

    RESOURCE_FILTER_PATH = os.path.join(ETC, 'resource_filters.json')

    def setUp(self):
        self.hosts = {}
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(nuke_handlers=False))
        # Nova says who it is by a service token, of which noauth knows
        # nothing
        self.patch('cinder.volume.api.API.attachment_deletion_allowed')
        self.type_id = self.api.create_type('vdisk')['id']

    def without_sudo(self):
        """Have Cinder and os-brick run what needs root as they are."""
        self.patch('cinder.utils.get_root_helper', return_value='env')
        for privileged in (
            os_brick.privileged.default,
            cinder.privsep.sys_admin_pctxt,
        ):
            privileged.set_client_mode(False)
            self.addCleanup(privileged.set_client_mode, True)

    def start_service(self, name, host=None, **kwargs):
        """Start cinder-volume on both hosts where one is asked for."""
        if name == 'scheduler':
            # it looks once a second if cinder-volume has said what it has
            with mock.patch(
                'cinder.scheduler.manager.time', _Impatient, create=True
            ):
                return super().start_service(name, host, **kwargs)
        if name != 'volume':
            return super().start_service(name, host, **kwargs)
        self._start_placement()
        self._start_nova()
        return [self._start_host(host) for host in HOSTS]

    def _start_placement(self):
        # its options are not to mix with Cinder's
        self.placement_fixture = self.useFixture(
            placement_fixture.PlacementFixture(
                conf_fixture=self.useFixture(
                    config_fixture.Config(cfg.ConfigOpts())
                ),
                use_intercept=False,
            )
        )
        self.placement_away = None
        # a service that is away in a test stays away
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.http_retries.SECONDS', 0.0)
        )
        placement_api = deploy.loadapp(
            self.placement_fixture.conf_fixture.conf
        )
        self.useFixture(
            stubs.Intercept(stubs.PLACEMENT, self._placement(placement_api))
        )
        self._account('placement', stubs.PLACEMENT)
        self.placement = placement_client.PlacementClient.from_conf(CONF)

    def _placement(self, application):
        def answer(environ, start_response):
            if environ['REQUEST_METHOD'] == self.placement_away:
                start_response('503 Service Unavailable', [])
                return [b'']
            return application(environ, start_response)

        return answer

    def _start_nova(self):
        self.nova = self.useFixture(stubs.NovaAPI())
        self._account('nova', stubs.NOVA)

    def _account(self, group, endpoint):
        CONF.register_opts(
            loading.get_auth_plugin_conf_options('admin_token'), group=group
        )
        loading.register_auth_conf_options(CONF, group)
        self.override_config('auth_type', 'admin_token', group)
        self.override_config('endpoint', endpoint, group)
        self.override_config('token', 'admin', group)

    def _start_host(self, name):
        root = self.useFixture(fixtures.TempDir()).path
        for _ in range(HOSTS[name]):
            self.add_disk(root)
        self.placement._call(
            'post',
            '/resource_providers',
            {'name': name, 'uuid': str(uuid.uuid4())},
        )
        host = Host(name, os.path.join(root, 'disks'), self.placement)
        host.publish()
        self.hosts[name] = host
        configuration.Configuration(conf.OPTS, config_group=name)
        self.override_config('vdisk_disk_root', host.root, name)
        return self.restart(name)

    def add_disk(self, root, medium='hdd', size_gb=5):
        """Prepare a disk for the host whose files are under ``root``."""
        prepare.prepare(
            os.path.join(root, 'disks'),
            self.useFixture(loops.LoopDevice(size_gb)).device,
            medium,
            fstab=os.path.join(root, 'fstab'),
        )

    def restart(self, name):
        """Start cinder-volume on a host that it is not running on."""
        return super().start_service(
            'volume', host=f'{name}@vdisk', service_name=name
        )

    def _get_flags(self):
        flags = super()._get_flags()
        # cinder-volume removes what it finds there when it starts
        flags['state_path'] = {'v': self.useFixture(fixtures.TempDir()).path}
        flags['default_volume_type'] = {'v': 'vdisk'}
        # this process may be too busy to say that it is there, or to answer
        flags['service_down_time'] = {'v': PATIENCE}
        flags['rpc_response_timeout'] = {'v': PATIENCE}
        flags['scheduler_driver_init_wait_time'] = {'v': PATIENCE}
        # they would begin at any time, and keep disks from being unmounted
        flags['periodic_interval'] = {'v': 0}
        shared = configuration.SHARED_CONF_GROUP
        flags['volume_driver'] = {'v': DRIVER, 'g': shared}
        flags['volume_backend_name'] = {'v': 'vdisk', 'g': shared}
        flags['scheduler_default_filters'] = {
            'v': [
                'AvailabilityZoneFilter',
                'CapabilitiesFilter',
                'VDiskLocalityFilter',
            ]
        }
        return flags

    def _start_api_service(self):
        # the option itself is registered only when the service is made
        CONF.api_paste_config = os.path.join(ETC, 'api-paste.ini')
        self.osapi = service.WSGIService('osapi_volume')
        self.osapi.start()
        self.auth_url = f'http://{self.osapi.host}:{self.osapi.port}/v3'

    def server(
        self,
        host='host1',
        claims=None,
        project=PROJECT,
        launched=True,
        **specs,
    ):
        """Make a server with these claims, {disk: GiB}, and return its ID.

        :param launched: whether it has been active before.
        :param specs: ``diskplacer:`` extra specs of its flavor.
        """
        server_id = str(uuid.uuid4())
        extra_specs = {f'diskplacer:{k}': str(v) for k, v in specs.items()}
        self.nova.add(server_id, project, host, extra_specs, launched)
        if claims:
            self.claim(server_id, claims, project)
        return server_id

    def claim(self, server_id, claims, project=PROJECT):
        """Allocate GiB of disks to a server, as Nova's scheduler does."""
        self.placement._call(
            'put',
            f'/allocations/{server_id}',
            {
                'allocations': {
                    disk: {'resources': {placement_client.GB: gb}}
                    for disk, gb in claims.items()
                },
                'project_id': project,
                'user_id': fake.USER_ID,
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
            },
        )

    @contextlib.contextmanager
    def as_member(self, project):
        """Have requests be of an ordinary member of a project."""
        set_context = auth._set_request_context
        member = {
            'project_id': project,
            'is_admin': False,
            'roles': ['member', 'reader'],
        }
        with mock.patch.object(
            auth,
            '_set_request_context',
            lambda req, **kwargs: set_context(req, **kwargs | member),
        ):
            yield

    def create(self, size, name='data', hints=None, status='available'):
        """Create a volume, wait, and return it as an admin sees it."""
        body = {'volume': {'size': size, 'name': name}}
        if hints:
            body['OS-SCH-HNT:scheduler_hints'] = hints
        volume = self.api.post_volume(body)
        return self.wait(volume['id'], status)

    def wait(self, id_, status, kind='volume'):
        """Wait until something has a status; None where it is to be gone."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                found = self.api.api_get(f'/{kind}s/{id_}')[kind]
            except client.OpenStackApiException404:
                found = None
            if (found and found['status']) == status:
                return found
            failed = found and found['status'].startswith('error')
            if failed or time.monotonic() > deadline:
                self.fail(f'{kind} {found} did not become {status}')
            time.sleep(0.1)

    def wait_until(self, true, what):
        """Wait until something is true."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                self.fail(f'never: {what}')
            time.sleep(0.1)

    def reserve(self, volume, server_id):
        """Do as Nova's API does when a volume is to be attached."""
        body = {
            'attachment': {
                'volume_uuid': volume['id'],
                'instance_uuid': server_id,
            }
        }
        return self.api.api_post('/attachments', body)['attachment']['id']

    def connect(self, attachment_id, host='host1'):
        """Do as nova-compute does: returns the connection information."""
        body = {'attachment': {'connector': {'host': host}}}
        return self.api.api_put(f'/attachments/{attachment_id}', body)[
            'attachment'
        ]['connection_info']

    def attach(self, volume, server_id, host='host1'):
        """Attach a volume; returns (attachment ID, path of its vdisk)."""
        attachment_id = self.reserve(volume, server_id)
        path = self.connect(attachment_id, host)['device_path']
        self.api.api_post(
            f'/attachments/{attachment_id}/action',
            {'os-complete': {}},
            check_response_status=[204],
        )
        self.wait(volume['id'], 'in-use')
        return attachment_id, os.path.realpath(path)

    def detach(self, volume, attachment_id):
        """Delete an attachment."""
        self.api.api_delete(f'/attachments/{attachment_id}')
        self.wait(volume['id'], 'available')

    def delete(self, volume):
        """Delete a volume and wait until it is gone."""
        self.api.delete_volume(volume['id'])
        self.wait(volume['id'], None)

    @property
    def context(self):
        """An admin's context."""
        return context.get_admin_context()
