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

"""A configuration of a test's own."""

import fixtures
from oslo_config import cfg

from nova_diskplacer import conf as options


class Options(fixtures.Fixture):
    """All options with their defaults, as ``conf``, but for ``state_dir``.

    Groups of options are shared by all configurations, and so would be what
    is overridden in one; here that ends with the test.
    """

    def _setUp(self):
        self.conf = cfg.ConfigOpts()
        options.register_opts(self.conf)
        self.conf([], default_config_files=[])
        self.addCleanup(self.conf.reset)
        self.state_dir = self.useFixture(fixtures.TempDir()).path
        self.conf.set_override('state_dir', self.state_dir, 'diskplacer_agent')
