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
from nova_diskplacer.disks.filesystem import vdisks
from tests import loops

# Starts the helper process, gives up root, and works on disks of which
# nothing can be read or written without root. One vdisk is QEMU's already.
SCRIPT = """
import os, sys
from oslo_config import cfg
from oslo_privsep import priv_context
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer import exception

root, uuid, other, open_to_all = sys.argv[1:]

def refused(reason, call, *arguments):
    try:
        call(*arguments)
    except exception.DiskError as error:
        assert reason in str(error), error
    else:
        raise AssertionError(f'{call}{arguments} was not refused')

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
backend.delete(uuid, 'volume-qemu-not')
disks = {disk.uuid: disk for disk in backend.disks()}
assert sorted(disks) == sorted([uuid, other]), disks
disk = disks[uuid]
assert disk == backend.disk(uuid), disk
assert disk.health == 'ok', disk
vdisk, foreign = disk.vdisks
assert (vdisk.server_id, vdisk.size_gb) == ('server', 2), vdisk
refused('No space left', backend.create, uuid, 'volume-2', '2', None, 99)
backend.delete(uuid, 'volume-1')

# all that may be done to the file of a vdisk that libvirt gave to QEMU
backend.snapshot(uuid, 'volume-q', 'snapshot-1', '1s')
backend.clone(uuid, 'volume-q', 'volume-c', 'c', 1)
backend.clear(uuid, 'volume-q')
backend.revert(uuid, 'volume-q', 'snapshot-1')
backend.extend(uuid, 'volume-q', 1)
backend.create(other, 'volume-q', 'q', None, 1)
backend.copy(uuid, 'volume-q', other)
backend.rename(uuid, 'volume-q', 'unmanaged-q', '')
backend.rename(other, 'volume-q', 'volume-r', 'r')

# nothing else may be done
run = privsep.run
name = 'volume-c'
refused('must be owned', run, open_to_all, 'delete', uuid, name)
refused('is missing', run, root + '/none', 'delete', uuid, name)
refused('is missing', run, '/', 'delete', uuid, name)
refused('is not the UUID', run, root, 'delete', '../' + uuid, name)
refused('is not the UUID', run, root, 'copy', uuid, name, '..', 0)
refused('name of a vdisk', run, root, 'delete', uuid, '../vdisks/' + name)
refused('must be owned', run, open_to_all, 'disks', False)
refused('must be owned', run, open_to_all, 'disk', uuid)
refused('not an allowed operation', run, root, 'scan', uuid)
refused('does not take', run, root, 'delete', uuid)
refused('does not take', run, root, 'extend', uuid, name, True)
for other in ('call', 'check_root_owned', 'OPERATIONS', 'os.unlink'):
    try:
        privsep.context.channel.remote_call(
            'cinder_vdisk_mapper.privsep.' + other, (path,), {}, None
        )
    except (AttributeError, ImportError, NameError, TypeError) as error:
        pass
    else:
        raise AssertionError(f'{other} can be called')
assert not run(root + '/none', 'disks', False)
assert not run(root + '/none', 'disks', True)
privsep.context.stop()
print('done')
"""


@loops.needs_root
class PrivsepTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        os.chmod(self.directory, 0o755)
        self.root = os.path.join(self.directory, 'disks')

    def prepared(self):
        device = self.useFixture(loops.LoopDevice()).device
        return prepare.prepare(
            self.root, device, fstab=os.path.join(self.directory, 'fstab')
        )

    def test_work_without_root(self):
        disk, other = self.prepared(), self.prepared()
        vdisks.create(disk.path, 'volume-q', 'q', 'server', 1 << 20)
        path = vdisks.path(disk.path, 'volume-q')
        with open(path, 'r+b') as stream:
            stream.write(b'content')
        os.chown(path, 64055, 64055)
        # what whoever has the driver's user could make
        open_to_all = os.path.join(self.directory, 'open')
        os.mkdir(open_to_all)
        os.chmod(open_to_all, 0o777)
        os.symlink(disk.path, os.path.join(open_to_all, disk.uuid))
        done = subprocess.run(
            [
                sys.executable,
                '-W',
                'ignore',
                '-c',
                SCRIPT,
                self.root,
                disk.uuid,
                other.uuid,
                open_to_all,
            ],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(('done\n', 0), (done.stdout, done.returncode), done)
        self.assertEqual(
            [
                ('snapshot-1', '1s', 0o400),
                ('unmanaged-q', '', 0o600),
                ('volume-c', 'c', 0o600),
            ],
            self.found(disk),
        )
        self.assertEqual([('volume-r', 'r', 0o600)], self.found(other))

    def found(self, disk):
        """Return name, volume and mode of vdisks that have the content."""
        found = []
        for vdisk in vdisks.scan(disk.path):
            path = vdisks.path(disk.path, vdisk.name)
            with open(path, 'rb') as stream:
                self.assertEqual(b'content', stream.read(7))
            status = os.stat(path)
            self.assertEqual((0, 0), (status.st_uid, status.st_gid))
            mode = status.st_mode & 0o7777
            found.append((vdisk.name, vdisk.volume_id, mode))
        return found
