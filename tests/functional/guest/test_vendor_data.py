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


"""Vendor data as Nova passes it on, consumed by cloud-init itself."""

import json
import pathlib
import shutil
import subprocess
import unittest

import fixtures
import testtools
import yaml

from nova_diskplacer.guest import config
from nova_diskplacer.guest import vendor_data

CLOUD_INIT = shutil.which('cloud-init')

# Stands in for the script of the guest, which would look for disks here.
SCRIPT = """import sys
with open(sys.argv[0] + '.log', 'a') as log:
    print(*sys.argv[1:], 'called', file=log)
"""

# Does what cloud-init does in a boot, as far as user data and vendor data are
# concerned, in a directory. Prints the merged cloud-config.
CONSUME = """
import json
import os
import sys

from cloudinit import distros
from cloudinit import helpers
from cloudinit import settings
from cloudinit import stages
from cloudinit import subp
from cloudinit import util
from cloudinit.sources import DataSourceConfigDrive

directory = sys.argv[1]
paths = helpers.Paths({'cloud_dir': directory, 'run_dir': directory})
cfg = util.mergemanydict([{'datasource_list': []}, settings.CFG_BUILTIN])
distro = distros.fetch('debian')('debian', {}, paths)
source = DataSourceConfigDrive.DataSourceConfigDrive(cfg, distro, paths)
assert source.get_data()
source.distro = distro
paths.datasource = source
init = stages.Init([])
init.datasource = source
init._cfg = cfg
init._paths = paths
init._distro = distro
os.makedirs(paths.get_ipath())
os.symlink(paths.get_ipath(), f'{directory}/instance')
init._consume_userdata()
init._consume_vendordata('vendordata')
init._consume_vendordata('vendordata2')
subp.runparts(paths.get_ipath('vendor_scripts'))
merger = helpers.ConfigMerger(paths, source, base_cfg=cfg)
print(json.dumps(merger.cfg))
"""

USERS = """#cloud-config
bootcmd: [a]
runcmd: [b]
write_files: []
"""


@unittest.skipUnless(CLOUD_INIT, 'bindep.txt names the package')
class VendorDataTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.script = self.path / 'sbin' / 'guest'
        for name, value in (
            ('PATH', str(self.script)),
            ('script', lambda _: SCRIPT),
        ):
            self.useFixture(fixtures.MockPatchObject(config, name, value))

    def consume(self, vendor, user=''):
        """Return the cloud-config of a server, and the runs of the script."""
        drive = self.path / 'seed' / 'config_drive' / 'openstack' / 'latest'
        drive.mkdir(parents=True)
        (drive / 'meta_data.json').write_text('{"uuid": "1", "dsmode": "net"}')
        (drive / 'user_data').write_text(user)
        # as Nova writes the answer of the target cloud-init@URL
        (drive / 'vendor_data2.json').write_text(
            json.dumps({'static': {}, 'cloud-init': vendor})
        )
        interpreter = pathlib.Path(CLOUD_INIT).read_text().split('\n')[0]
        done = subprocess.run(
            [*interpreter.removeprefix('#!').split(), '-', self.path],
            input=CONSUME,
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        log = pathlib.Path(f'{self.script}.log')
        runs = log.read_text() if log.exists() else ''
        return json.loads(done.stdout), runs.splitlines()

    def test_runs_beside_user_data(self):
        found, runs = self.consume(vendor_data.vendor_data({}), USERS)
        self.assertEqual(['early called', 'called'], runs)
        wanted = yaml.safe_load(USERS)
        self.assertEqual(wanted, {key: found[key] for key in wanted})

    def test_user_data_may_refuse_it(self):
        _, runs = self.consume(
            vendor_data.vendor_data({}),
            '#cloud-config\nvendor_data2: {enabled: false}\n',
        )
        self.assertEqual([], runs)

    def test_empty_answers(self):
        """No failure fails a boot: Nova passes on {} if there is none."""
        for number, vendor in enumerate(('', {})):
            self.path = self.path / str(number)
            _, runs = self.consume(vendor)
            self.assertEqual([], runs)
