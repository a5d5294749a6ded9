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

"""cinder-volume runs as a user without privileges, the audit as root."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import threading
import time

import fixtures

from nova_diskplacer.disks.filesystem import vdisks
from tests import sudo
from tests.e2e import base
from tools.minicloud import checks
from tools.minicloud import cinder
from tools.minicloud import ini
from tools.minicloud import process

HOST = 'compute2'
SERVICE = f'cinder-volume@{HOST}'


class UsersTest(base.TestCase):
    def setUp(self):
        super().setUp()
        sudo.check_readable(process.environment())
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conf = self.directory / 'cinder.conf'
        self.state = self.directory / 'state'
        self.locks = self.state / 'locks'
        self.deleted = {}

    def test_audit_by_root_beside_the_user(self):
        self.deleted = self._deleted_volumes()
        self._run_as_user()
        # as after a reboot
        self.assertFalse(self.locks.exists())
        self._repair()
        self.assertTrue(self.locks.is_dir())
        self.assertEqual([], self._owned_by_others())
        self._use_volumes_beside_audits()
        left = {*self._kill_audit()}
        self.assertEqual([], self._owned_by_others())
        self._use_volumes()
        self.assertEqual([], sorted(left & {*self._lock_files()}))
        self._repair()
        self.assertEqual({'findings': [], 'repaired': []}, self._audit())
        self.assertEqual([], os.listdir(self.locks))
        self.assertEqual([], self._owned_by_others())

    def _run_as_user(self):
        """Run cinder-volume as the user until the test ends."""
        host = next(one for one in self.cloud.hosts if one.name == HOST)
        config = cinder.host_config(self.cloud.state, host)
        address = f'{self.directory}/helper'
        helper = {'helper_command': sudo.helper_command(address, self.conf)}
        config['DEFAULT']['state_path'] = str(self.state)
        config |= {
            'oslo_concurrency': {'lock_path': str(self.locks)},
            'coordination': {'backend_url': f'file://{self.state}'},
            'vdisk_privsep': helper,
            'cinder_sys_admin': helper,
            'privsep_osbrick': helper,
        }
        ini.write(self.conf, config)
        self.state.mkdir()
        for path in (self.directory, self.conf, self.state):
            os.chown(path, sudo.USER, sudo.USER)
        log = self.cloud.state.logs / f'privsep-helper@{HOST}.log'
        self.enterContext(sudo.serve(address, log))
        self.addCleanup(
            self.eventually, 'end of the helpers', lambda: not self._helpers()
        )
        before = self.cloud.services[SERVICE]
        self.addCleanup(self._replace_service, before)
        self._replace_service(
            dataclasses.replace(
                before,
                argv=[before.argv[0], f'--config-file={self.conf}'],
                env={'HOME': str(self.state)},
                user=sudo.USER,
            )
        )
        self._check_unprivileged()

    def _replace_service(self, service):
        """Stop cinder-volume of the host, and start it in another way."""
        self.cloud.stop_service(SERVICE)
        self.cloud.services[SERVICE] = service
        self.cloud.start_service(SERVICE)

    def _helpers(self):
        """Return the ids of the user's processes that run as root."""
        found = []
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                command = path.read_text(errors='replace').split('\0')
            except OSError:
                continue
            if str(self.conf) in command:
                found.append(path.parent.name)
        return found

    def _check_unprivileged(self):
        pid = self.cloud.services[SERVICE].pid()
        text = pathlib.Path(f'/proc/{pid}/status').read_text()
        fields = dict(line.split(':\t', 1) for line in text.splitlines())
        self.assertEqual([str(sudo.USER)] * 4, fields['Uid'].split())
        self.assertEqual([str(sudo.USER)] * 4, fields['Gid'].split())
        self.assertEqual('', fields['Groups'].strip())
        self.assertEqual(0, int(fields['CapEff'], 16))

    def _deleted_volumes(self):
        """Return {volume id: disk} of a deleted volume for each disk."""
        server = self.boot('round-robin', HOST)
        disks = self.disks_of(server)
        self.assertEqual(base.VDISKS, len({*disks.values()}))
        self._delete(server)
        return disks

    def _delete(self, server):
        """Delete a server, and wait until its volumes are gone."""
        self.api.delete_server(server)
        self.eventually(
            'volumes gone',
            lambda: (
                not ({*checks.by_files(self.cloud, HOST)} - {*self.deleted})
            ),
        )

    def _use_volumes(self):
        """Make, attach, extend, detach and delete volumes."""
        server = self.boot('round-robin', HOST)
        self.assert_mapped(server, 'round-robin')
        plain = self.boot('plain', HOST)
        volume = self.api.create_volume(1, local_to_instance=plain)
        self.api.attach(plain, volume)
        self.assertEqual([volume], [*self.disks_of(plain)])
        self.api.detach(plain, volume)
        self.api.post(
            'volumev3',
            f'/volumes/{volume}/action',
            {'os-extend': {'new_size': 2}},
        )
        self.api.wait_volume(volume, 'available')
        self.api.delete_volume(volume)
        self.api.delete_server(plain)
        self._delete(server)

    def _use_volumes_beside_audits(self):
        ended = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            try:
                repairing = pool.submit(self._repair_until, ended)
                watching = pool.submit(self._watch_locks_until, ended)
                self._use_volumes()
            finally:
                ended.set()
            self.assertEqual({sudo.USER}, watching.result())
            repairing.result()

    def _repair_until(self, ended):
        self._repair()
        while not ended.is_set():
            self._repair()

    def _watch_locks_until(self, ended):
        """Return the ids of all who owned a lock file meanwhile."""
        owners = set()
        while not ended.wait(0.005):
            for path in self._lock_files():
                owners.add(self._owner(path))
        return owners - {None}

    def _repair(self):
        """Have root repair what takes the lock of each disk."""
        self._leave_orphans()
        repaired = self._audit('--repair')['repaired']
        self.assertEqual(
            sorted(f'volume-{volume}' for volume in self.deleted),
            sorted(
                one['vdisk'] for one in repaired if one['kind'] == 'orphan'
            ),
        )
        held = checks.by_files(self.cloud, HOST)
        self.assertEqual([], sorted({*held} & {*self.deleted}))

    def _leave_orphans(self):
        """Leave the vdisk of a deleted volume on each disk."""
        root = self.cloud.state.disk_root(HOST)
        for volume, disk in self.deleted.items():
            vdisks.create(
                str(root / disk), f'volume-{volume}', volume, None, 4096
            )

    def _audit(self, *options):
        """Return what an audit by root tells; it must find all well."""
        audit = self._start_audit(*options)
        output, complaint = audit.communicate()
        self.assertEqual(0, audit.returncode, output + complaint)
        return json.loads(output)

    def _start_audit(self, *options):
        return subprocess.Popen(
            [
                f'{ini.BIN}/diskplacer-manage',
                'disk',
                'audit',
                f'--cinder-config-file={self.conf}',
                '--format=json',
                *options,
            ],
            env=process.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _kill_audit(self):
        """Kill an audit that holds a lock; return the files of its locks."""

        def left():
            self._leave_orphans()
            with self._start_audit('--repair') as audit:
                while audit.poll() is None and not self._lock_files():
                    time.sleep(0.001)
                audit.kill()
            return self._lock_files()

        return process.wait('locks of a killed audit', left)

    def _lock_files(self):
        return sorted(self.locks.glob('vdisk-*'))

    def _owned_by_others(self):
        """Return what is not the user's in the directory of the user.

        What root has not given away yet is hidden.
        """
        return sorted(
            path
            for directory, directories, names in os.walk(self.directory)
            for name in ('', *directories, *names)
            if not name.startswith('.')
            and self._owner(path := os.path.join(directory, name))
            not in (sudo.USER, None)
        )

    def _owner(self, path):
        """Return the id of the owner of a file, None if it is gone."""
        try:
            return os.lstat(path).st_uid
        except FileNotFoundError:
            return None
