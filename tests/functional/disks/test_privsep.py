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

"""The filesystem backend in a process that is not root."""

import os
import subprocess
import sys

import fixtures
import testtools

from nova_diskplacer.disks import prepare
from tests import loops

# Starts the helper process, gives up root, and works on a disk of which
# nothing can be read or written without root.
SCRIPT = """
import os, sys
from oslo_config import cfg
from oslo_privsep import priv_context
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer import exception

root, uuid = sys.argv[1:]
cfg.CONF([], project='test', default_config_files=[])
privsep.context.start(priv_context.Method.FORK)
os.setresuid(65534, 65534, 65534)
backend = filesystem.FilesystemBackend(root)
backend.create(uuid, 'volume-1', '1', 'server', 1)
path = backend.device_path(uuid, 'volume-1')
try:
    open(path)
except PermissionError:
    pass
else:
    raise AssertionError('the file is readable by all')
backend.extend(uuid, 'volume-1', 3)
backend.shrink(uuid, 'volume-1', 2)
(disk,) = backend.disks()
assert disk == backend.disk(uuid), disk
assert disk.health == 'ok', disk
(vdisk,) = disk.vdisks
assert (vdisk.server_id, vdisk.size_gb) == ('server', 2), vdisk
try:
    backend.create(uuid, 'volume-2', '2', None, 99)
except exception.DiskError as error:
    assert 'No space left' in str(error), error
else:
    raise AssertionError('there is no such space')
backend.delete(uuid, 'volume-1')
assert backend.disk(uuid).vdisks == ()
privsep.context.stop()
print('done')
"""


@loops.needs_root
class PrivsepTestCase(testtools.TestCase):
    def test_work_without_root(self):
        directory = self.useFixture(fixtures.TempDir()).path
        os.chmod(directory, 0o755)
        device = self.useFixture(loops.LoopDevice()).device
        disk = prepare.prepare(
            os.path.join(directory, 'disks'),
            device,
            fstab=os.path.join(directory, 'fstab'),
        )
        done = subprocess.run(
            [
                sys.executable,
                '-W',
                'ignore',
                '-c',
                SCRIPT,
                os.path.join(directory, 'disks'),
                disk.uuid,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(('done\n', 0), (done.stdout, done.returncode), done)
