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

from cinder.volume import configuration
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslotest import base

from cinder_vdisk_mapper import conf

DEFAULT = '/var/lib/diskplacer/disks'


class DiskRootTest(base.BaseTestCase):
    """The disk root of a backend, as the driver reads it in Cinder."""

    def setUp(self):
        super().setUp()
        conf.register_opts(cfg.CONF)
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.backend = configuration.Configuration(
            conf.OPTS, config_group='vdisk'
        )

    def disk_root(self):
        return self.backend.vdisk_disk_root

    def test_default(self):
        self.assertEqual(DEFAULT, self.disk_root())

    def test_it_is_that_of_the_agent_by_default(self):
        self.conf.config(disk_root='/disks', group='diskplacer')
        self.assertEqual('/disks', self.disk_root())

    def test_a_backend_may_have_another(self):
        self.conf.config(disk_root='/disks', group='diskplacer')
        self.conf.config(vdisk_disk_root='/others', group='backend_defaults')
        self.assertEqual('/others', self.disk_root())
        self.conf.config(vdisk_disk_root='/own', group='vdisk')
        self.assertEqual('/own', self.disk_root())

    def test_without_a_section(self):
        self.conf.config(disk_root='/disks', group='diskplacer')
        backend = configuration.Configuration([])
        backend.append_config_values(conf.OPTS)
        self.assertEqual('/disks', backend.vdisk_disk_root)
