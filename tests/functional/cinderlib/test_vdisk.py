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

"""cinderlib's own functional tests, against VDiskMapperDriver.

cinderlib drives a driver without Cinder's services, and keeps volumes in
memory. Placement is real, in the same process; the disks are loop devices.

``DISKPLACER_CINDERLIB_BACKEND`` chooses the driver's backend: ``filesystem``,
which is the default, or ``lvm``, which takes a kernel with device-mapper.
"""

import os
import stat
import sys
import types
import uuid
from importlib import metadata
from unittest import mock

import fixtures
from keystoneauth1 import loading
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from placement import deploy
from placement.tests.functional.fixtures import placement as placement_fixture

from nova_diskplacer.agent import placement_sync
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import prepare
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from nova_diskplacer.placement import client as placement_client
from tests import loops
from tests.functional.cinder import stubs

# It has cinderlib put dummies in the place of packages that most drivers can
# do without; this one talks to Placement by them.
sys.modules['cinderlib._fake_packages'] = types.ModuleType('_fake_packages')
# cinderlib reads it when its tests are imported
os.environ['CL_FTEST_CFG'] = os.path.join(
    os.path.dirname(__file__), 'backends.yaml'
)
# they run commands by it; this is run as root
os.environ['CL_FTEST_ROOT_HELPER'] = 'env'

import cinderlib  # noqa: E402
from cinder import coordination  # noqa: E402
from cinder.db import api as db_api  # noqa: E402
from cinderlib.tests.functional import test_basic  # noqa: E402
from os_brick import utils as brick_utils  # noqa: E402

from cinder_vdisk_mapper import driver  # noqa: E402

CONF = cfg.CONF

BACKEND = os.environ.get('DISKPLACER_CINDERLIB_BACKEND', 'filesystem')

LVM = lvm_prepare.Options() if BACKEND == 'lvm' else None

HOST = 'node'

DISKS = 2
DISK_GB = 12

# os-brick 6.11, that of 2025.1, cannot do it for local volumes
EXTENDS_ATTACHED = tuple(
    map(int, metadata.version('os-brick').split('.')[:2])
) > (6, 11)


class Host(fixtures.Fixture):
    """A host with disks that Placement, which answers here, knows."""

    def _setUp(self):
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(self.directory, 'disks')
        for _ in range(DISKS):
            prepare.prepare(
                self.root,
                self.useFixture(loops.LoopDevice(DISK_GB)).device,
                fstab=os.path.join(self.directory, 'fstab'),
                lvm_options=LVM,
            )
        conf = self.useFixture(config_fixture.Config(cfg.ConfigOpts()))
        self.useFixture(
            placement_fixture.PlacementFixture(
                conf_fixture=conf, use_intercept=False
            )
        )
        application = deploy.loadapp(conf.conf)
        self.useFixture(stubs.Intercept(stubs.PLACEMENT, application))
        self._configure()
        client = placement_client.PlacementClient.from_conf(CONF)
        client.ensure_names()
        client._call(
            'post',
            '/resource_providers',
            {'name': HOST, 'uuid': str(uuid.uuid4())},
        )
        placement_sync.PlacementSync(client, HOST).reconcile(
            discover.discover(self.root)
        )

    def _configure(self):
        CONF.register_opts(
            loading.get_auth_plugin_conf_options('admin_token'),
            group='placement',
        )
        loading.register_auth_conf_options(CONF, 'placement')
        for name, value, group in (
            ('auth_type', 'admin_token', 'placement'),
            ('endpoint', stubs.PLACEMENT, 'placement'),
            ('token', 'admin', 'placement'),
            ('lock_path', self.directory, 'oslo_concurrency'),
            ('state_path', self.directory, None),
        ):
            CONF.set_override(name, value, group)
            self.addCleanup(CONF.clear_override, name, group)

    def reserved(self):
        """Return the reserved GiB of the disks in Placement."""
        client = placement_client.PlacementClient.from_conf(CONF)
        return sum(
            client.inventories(disk.uuid)[1][placement_client.GB]['reserved']
            for disk in discover.discover(self.root)
        )


@loops.needs_root
class VDiskTestCase(test_basic.BackendFunctBasic):
    """The tests are cinderlib's."""

    @classmethod
    def setUpClass(cls):
        cls.host = Host()
        cls.addClassCleanup(cls.host.cleanUp)
        cls.host.setUp()
        # unlike cinderlib's own this leaves out its database in memory,
        # which Cinder's present migrations do not work on
        config = cls.ensure_config_loaded()
        cinderlib.setup(
            root_helper=cls.ROOT_HELPER,
            disable_logs=not config['logs'],
            host=HOST,
            file_locks_path=cls.host.directory,
            persistence_config={'storage': 'memory'},
        )
        # so that another class can set it up, too
        cls.addClassCleanup(
            setattr, cinderlib.Backend, 'global_initialization', False
        )
        cls.addClassCleanup(coordination.COORDINATOR.stop)
        cls.addClassCleanup(cinderlib.Backend.backends.clear)
        # cinderlib means to replace Cinder's database, but that is made of
        # functions now
        database = cinderlib.Backend.persistence.db
        patch = mock.patch.object(
            db_api, 'volume_get_all_by_host', database.volume_get_all_by_host
        )
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.backends = [
            cinderlib.Backend(
                **backend,
                vdisk_backend=BACKEND,
                vdisk_disk_root=cls.host.root,
            )
            for backend in config['backends']
        ]
        for backend in cls.backends:
            # it notices new volumes from now on
            list(backend.volumes)
        cls.backend = cls.backends[0]
        cls.size_precision = config['size_precision']

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        # nothing is left of what they made
        held = [
            vdisk.name
            for disk in discover.discover(cls.host.root)
            for vdisk in disk.vdisks
        ]
        assert not held, held
        assert cls.host.reserved() == 0, cls.host.reserved()

    def setUp(self):
        super().setUp()
        if 'test_extend_attached' in self.id() and not EXTENDS_ATTACHED:
            self.skipTest('os-brick cannot extend what is attached')
        # os-brick measures what is attached by blockdev
        measure = brick_utils.get_device_size
        patch = mock.patch.object(
            brick_utils,
            'get_device_size',
            lambda executor, path: _file_size(path) or measure(executor, path),
        )
        patch.start()
        self.addCleanup(patch.stop)

    def _root_execute(self, *args, **kwargs):
        """Have commands for block devices do the same to files."""
        if args[0] == 'lsblk' and _file_size(args[-1]):
            return f'SIZE\n{_file_size(args[-1])}\n'.encode()
        if 'of' in kwargs:
            kwargs['conv'] = 'notrunc,fsync'
        return super()._root_execute(*args, **kwargs)


class DriversTestCase(test_basic.BaseFunctTestCase):
    """The tests are cinderlib's; the driver is among those it finds."""

    def test_ours(self):
        found = cinderlib.Backend.list_supported_drivers(2)
        options = {
            option['dest']
            for option in found[driver.VDiskMapperDriver.__name__][
                'driver_options'
            ]
        }
        self.assertIn('vdisk_backend', options)


def _file_size(path):
    """Return the size of a file in bytes, None if it is a device."""
    status = os.stat(path)
    return status.st_size if stat.S_ISREG(status.st_mode) else None
