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

"""cinder-volume runs as one user and audits as root, on the same host."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import uuid

from nova_diskplacer.disks.filesystem import vdisks
from tests import sudo
from tests.functional.crash import cloud as cloud_
from tests.functional.crash import operations
from tests.functional.crash import test_audit
from tests.functional.crash import test_walk
from tests.functional.crash import user


class UsersTestCase(test_walk.CrashTestCase):
    def test_each_may_be_the_first(self):
        sudo.check_readable()
        results = self.call(test_audit._run, _each_first)
        self.assertEqual(3, len(results))
        for result in results:
            self.assertEqual(0, result['status'], result)
            shown = json.loads(result['output'])
            self.assertIn('orphan', [one['kind'] for one in shown['repaired']])


def _each_first(cloud, audit):
    """Root and cinder-volume take the same locks, in turn and at once."""
    with _two_users(cloud, audit) as host:
        # there is no directory of locks at first, as after a reboot
        host.repair()
        running = host.start('hdd', 4)
        host.repair()
        host.end(running)
        operations.expect([], os.listdir(host.locks), 'lock files')
        host.end(host.start('ssd', 1))
        host.repair()


@contextlib.contextmanager
def _two_users(cloud, audit):
    """Have a user and what is the user's, which goes in the end."""
    served = os.path.join(os.path.dirname(cloud.disk_root), 'served')
    try:
        with _users_own(cloud, audit, served) as host:
            yield host
    finally:
        shutil.rmtree(served)


@contextlib.contextmanager
def _users_own(cloud, audit, served):
    """Make configuration, database and directories for logs and state."""
    os.chmod(os.path.dirname(served), 0o755)
    database = os.path.join(served, 'cinder.sqlite')
    for name in ('state', 'logs'):
        os.makedirs(os.path.join(served, name))
    conf = os.path.join(served, 'cinder.conf')
    outside = os.path.dirname(served)
    with open(conf, encoding='utf-8') as stream:
        text = stream.read()
    for old, new in (
        (f'{outside}/cinder.sqlite', database),
        (f'state_path = {outside}', f'state_path = {served}/state'),
        (f'{outside}/locks', f'{served}/run/locks'),
        ('[DEFAULT]', f'[DEFAULT]\nlog_dir = {served}/logs'),
    ):
        text = text.replace(old, new, 1)
    address = os.path.join(served, 'helper')
    helper = sudo.helper_command(address, conf)
    text += f'[vdisk_privsep]\nhelper_command = {helper}\n'
    with open(conf, 'w', encoding='utf-8') as stream:
        stream.write(text)
    audit.nova.add(cloud_.SERVER, cloud_.PROJECT, 'host1')
    cloud.publish()
    shutil.copy(os.path.join(outside, 'cinder.sqlite'), database)
    for path, _, names in os.walk(served):
        for one in ('', *names):
            os.chown(os.path.join(path, one), sudo.USER, sudo.USER)
    host = _Host(cloud, audit, conf, f'{served}/run/locks')
    with sudo.serve(address):
        yield host
    theirs = {
        os.path.join(path, one)
        for path, directories, names in os.walk(served)
        for one in (*directories, *names)
        if os.stat(os.path.join(path, one)).st_uid != sudo.USER
    }
    # what the directory of locks is in is root's everywhere, and the log of
    # cinder-volume's helper is the helper's
    theirs -= {f'{served}/run', f'{served}/logs/privsep-helper.log'}
    operations.expect(set(), theirs, "what is root's")
    operations.expect([], os.listdir(host.locks), 'lock files')


class _Host:
    def __init__(self, cloud, audit, conf, locks):
        self.cloud = cloud
        self.locks = locks
        self.audit = audit
        self.conf = conf

    def repair(self):
        """Have root repair: there is what takes the lock of each disk."""
        for disk in self.cloud.disks():
            self._leave_orphan(disk)
        self.audit('--format=json', '--repair')

    def _leave_orphan(self, disk):
        """Leave the vdisk of a deleted volume, and tell Placement."""
        id_ = str(uuid.uuid4())
        done = subprocess.run(
            [sys.executable, user.__file__, 'deleted', self.conf, id_],
            **sudo.AS_USER,
            capture_output=True,
            text=True,
        )
        operations.expect((0, ''), (done.returncode, done.stderr), 'a row')
        vdisks.create(disk.path, f'volume-{id_}', id_, None, 4096)

    def start(self, medium, times):
        """Have volumes of the user live and end, so many times."""
        return subprocess.Popen(
            [
                sys.executable,
                user.__file__,
                'volume',
                self.conf,
                medium,
                cloud_.PROJECT,
                self.cloud.type_id,
                cloud_.SERVER,
                str(times),
            ],
            **sudo.AS_USER,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process):
        """Wait for a process of the user; it must have succeeded."""
        _, complaint = process.communicate()
        operations.expect(0, process.returncode, complaint)
