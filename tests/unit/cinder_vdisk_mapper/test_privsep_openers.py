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

import os
import subprocess
import sys
import unittest
from unittest import mock

import fixtures
import testtools
from oslo_privsep import daemon

from cinder_vdisk_mapper import privsep_openers
from cinder_vdisk_mapper.backend import filesystem
from nova_diskplacer import exception

_WORKER = """
from oslo_privsep import capabilities
from cinder_vdisk_mapper import privsep_openers
from nova_diskplacer.host import processes
kept = privsep_openers.context.conf.capabilities
capabilities.drop_all_caps_except(kept, kept, [])
print(processes.have_open(0))
"""


def _may_trace():
    """Return whether this process may see what others have open."""
    with open('/proc/self/status', encoding='ascii') as stream:
        fields = dict(line.split(':', 1) for line in stream)
    number = int(privsep_openers.capabilities.CAP_SYS_PTRACE)
    return bool(int(fields['CapEff'], 16) >> number & 1)


class HelperTestCase(testtools.TestCase):
    @unittest.skipUnless(_may_trace(), 'needs the rights of the helper')
    def test_it_sees_processes_of_other_users(self):
        """QEMU runs as a user of its own."""
        user = 65534
        other = subprocess.Popen(
            ['sleep', '60'], user=user, group=user, extra_groups=[]
        )
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        found = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _WORKER],
            capture_output=True,
            text=True,
        )
        self.assertEqual('False', found.stdout.strip(), found.stderr)

    def test_it_does_not_start(self):
        """An operator has the rootwrap filter of an earlier release."""
        backend = filesystem.FilesystemBackend('/disks')
        with mock.patch.object(
            privsep_openers,
            'remote_in_use',
            side_effect=daemon.FailedToDropPrivileges('not permitted'),
        ):
            error = self.assertRaises(
                exception.DiskError, backend.remote_in_use, 'volume-1'
            )
        self.assertIn('vdisk-mapper.filters', str(error))

    def test_a_root_that_others_can_change(self):
        root = self.useFixture(fixtures.TempDir()).path
        os.chmod(root, 0o777)
        self.addCleanup(
            privsep_openers.context.set_client_mode,
            privsep_openers.context.client_mode,
        )
        privsep_openers.context.set_client_mode(False)
        self.assertRaises(
            exception.DiskError,
            privsep_openers.remote_in_use,
            root,
            'volume-1',
        )
