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

"""A cloud whose Nova asks the service for vendor data.

Nova's metadata API and config drive, the service with the real ``auth_token``
and Nova's API are real; Keystone's answers about tokens are not.
"""

import pathlib
import uuid

import fixtures
from keystoneauth1 import loading
from keystonemiddleware import fixture as ks_fixture
from nova import context
from nova.api import auth
from nova.api.metadata import base as metadata
from oslo_config import cfg
from wsgi_intercept import interceptor

from nova_diskplacer import conf as options
from nova_diskplacer.vendordata import application
from tests.functional.nova import base
from tests.functional.vendordata import sessions

URL = 'http://vendordata.test/'
AUTH = 'vendordata_dynamic_auth'

SERVICE_CONF = """
[keystone_authtoken]
www_authenticate_uri = http://keystone.test
[diskplacer_vendordata]
auth_type = admin_token
endpoint = {endpoint}
token = {token}
"""


class VendorDataTestCase(base.CloudTestCase):
    hosts_count = 1

    def setUp(self):
        super().setUp()
        self.nova_token, self.our_token = uuid.uuid4().hex, uuid.uuid4().hex
        tokens = self.useFixture(ks_fixture.AuthTokenFixture())
        tokens.add_token_data(
            token_id=self.nova_token,
            project_id=uuid.uuid4().hex,
            role_list=['service'],
        )
        self.use_nova_token(self.nova_token)
        stub = auth.NovaKeystoneContext._create_context

        def create_context(env, **kwargs):
            if env.get('HTTP_X_AUTH_TOKEN') == self.our_token:
                return context.RequestContext(
                    'vendordata',
                    'service',
                    is_admin=True,
                    roles=['admin'],
                    **kwargs,
                )
            return stub(env, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.api.auth.NovaKeystoneContext._create_context',
                staticmethod(create_context),
            )
        )
        self.serve(self.api.base_url)
        self.report()

    def use_nova_token(self, token):
        """Have Nova send a token to the service."""
        self.useFixture(sessions.Sessions())
        base.CONF.register_opts(
            loading.get_auth_plugin_conf_options('admin_token'), AUTH
        )
        self.flags(
            auth_type='admin_token', endpoint=URL, token=token, group=AUTH
        )
        self.ask_at(URL)

    def ask_at(self, url):
        """Have Nova ask the service at a URL."""
        self.flags(
            vendordata_providers=['StaticJSON', 'DynamicJSON'],
            vendordata_dynamic_targets=[f'cloud-init@{url}'],
            group='api',
        )

    def serve(self, nova):
        """Have a service answer that asks Nova at a URL."""
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'conf')
        path.write_text(
            SERVICE_CONF.format(endpoint=nova, token=self.our_token)
        )
        conf = cfg.ConfigOpts()
        options.register_opts(conf)
        conf([f'--config-file={path}'], default_config_files=[])
        service = application.from_conf(conf)
        intercept = interceptor.RequestsInterceptor(lambda: service, url=URL)
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)

    def metadata(self, server):
        """Return what Nova's metadata API and config drives are made of."""
        return metadata.get_metadata_by_instance_id(server['id'], '10.0.0.2')
