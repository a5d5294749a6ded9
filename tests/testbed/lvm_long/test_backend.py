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

"""The LVM backend, as a driver that is not root uses it."""

import subprocess
import sys

from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import volumes
from tests import shell
from tests.testbed.lvm import base

SIZE = 16 * base.MIB

# Starts the helper process, gives up root, and does all that the driver does.
SCRIPT = """
import os, sys
from oslo_config import cfg
from oslo_privsep import priv_context
from cinder_vdisk_mapper import privsep_lvm
from cinder_vdisk_mapper.backend import lvm
from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import naming

root, *uuids = sys.argv[1:]
cfg.CONF([], project='test', default_config_files=[])
privsep_lvm.context.start(priv_context.Method.FORK)
os.setresuid(65534, 65534, 65534)
backend = lvm.LVMBackend(root)
assert sorted(uuids) == [disk.uuid for disk in backend.disks()]
for uuid, other in (uuids, uuids[::-1]):
    backend.create(uuid, 'volume-1', '1', 'server', 1)
    path = backend.device_path(uuid, 'volume-1')
    try:
        open(path)
    except PermissionError:
        pass
    else:
        raise AssertionError('the device is readable by all')
    assert backend.disk(uuid).vdisks[0].server_id == 'server'
    assert not backend.in_use(uuid, 'volume-1')
    backend.link(uuid, 'volume-1')
    assert backend.linked_disk('volume-1') == uuid
    assert os.readlink(backend.link_path('volume-1')) == path
    backend.unlink('volume-1')
    assert backend.linked_disk('volume-1') is None
    # one that libvirt gave to QEMU's user
    backend.snapshot(uuid, 'volume-q', 'snapshot-q', 'q')
    backend.clone(uuid, 'volume-q', 'volume-c', 'c', 1)
    backend.clear(uuid, 'volume-q')
    backend.revert(uuid, 'volume-q', 'snapshot-q')
    backend.delete(uuid, 'snapshot-q')
    backend.extend(uuid, 'volume-1', 2)
    backend.shrink(uuid, 'volume-1', 1)
    backend.rename(uuid, 'volume-1', 'volume-m', 'm')
    if uuid == uuids[0]:
        # every byte of a GiB: once is enough
        backend.create(other, 'volume-m', 'm', None, 1)
        backend.copy(uuid, 'volume-m', other)
    for call in (
        (backend.create, uuid, '../x', 'x', None, 1),
        (backend.create, '../' + uuid, 'volume-x', 'x', None, 1),
        (backend.create, uuid, 'volume-x', 'x', None, 99),
        (backend.delete, uuid, 'pool'),
        (privsep_lvm.run, root, 'zero', uuid, 'volume-m'),
        (privsep_lvm.run, root, 'delete', uuid, 'volume-m'),
        (privsep_lvm.run, root, 'extend', uuid, 'volume-m', '1'),
        (privsep_lvm.run, '/tmp', 'disks', False),
    ):
        try:
            call[0](*call[1:])
        except exception.DiskError:
            pass
        else:
            raise AssertionError(f'{call} was not refused')
    for disk in uuids:
        backend.delete(disk, 'volume-m')
    backend.delete(uuid, 'volume-c')
privsep_lvm.context.stop()
print('done')
"""


class UnprivilegedTestCase(base.LVMTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.thick = cls.prepared(cls.spare[0]).uuid
        cls.thin = cls.prepared(cls.spare[1], thin=True).uuid

    def test_without_root(self):
        for uuid in (self.thick, self.thin):
            volumes.create(uuid, 'volume-q', 'q', 'server', SIZE)
            path = naming.device_path(uuid, 'volume-q')
            shell.run('chown', '64055:64055', path)
            shell.run('chmod', '600', path)
            self.addCleanup(base.purge, uuid)
        done = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', SCRIPT, self.root,
             self.thick, self.thin],
            capture_output=True,
            text=True,
            timeout=1800,
        )  # fmt: skip
        self.assertEqual(('done\n', 0), (done.stdout, done.returncode), done)
