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

"""Servers are suspended for a moment, and resumed whatever happens."""

import os
import pathlib
import subprocess
import sys
from unittest import mock

import fixtures
import testtools
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import hypervisor
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import quiesce
from nova_diskplacer import exception
from tests.unit.cinder_vdisk_mapper import fake_libvirt

URI = 'qemu:///system'

# suspends "a", says so, and waits to be killed
KILLED = """
import sys, time
from oslo_concurrency import lockutils
from oslo_config import cfg
from tests.unit.cinder_vdisk_mapper import fake_libvirt
sys.modules['libvirt'] = fake_libvirt
from cinder_vdisk_mapper import privsep
from cinder_vdisk_mapper import quiesce
privsep.context.set_client_mode(False)
lockutils.set_defaults(sys.argv[1])
with quiesce.Quiescer('qemu:///system', sys.argv[2]).quiet(['a']):
    print('quiet', flush=True)
    time.sleep(60)
"""


class LibvirtTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.domains = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.marks = self.useFixture(fixtures.TempDir()).join('suspended')
        self.locks = self.useFixture(fixtures.TempDir()).path
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        conf.config(lock_path=self.locks, group='oslo_concurrency')
        for target, name, new in (
            (sys.modules, 'libvirt', fake_libvirt),
            (vars(fake_libvirt), 'directory', str(self.domains)),
            (vars(fake_libvirt), 'refuses', set()),
            (vars(fake_libvirt), 'uris', []),
        ):
            patch = mock.patch.dict(target, {name: new})
            patch.start()
            self.addCleanup(patch.stop)
        mode = privsep.context.client_mode
        self.addCleanup(privsep.context.set_client_mode, mode)
        privsep.context.set_client_mode(False)
        self.quiescer = quiesce.Quiescer(URI, self.marks)

    def server(self, name, state=fake_libvirt.VIR_DOMAIN_RUNNING):
        (self.domains / name).write_text(str(state))

    def states(self):
        return {
            path.name: int(path.read_text())
            for path in sorted(self.domains.iterdir())
        }

    def suspended(self):
        """Return the servers that are noted to be suspended."""
        return (
            set(os.listdir(self.marks))
            if os.path.exists(self.marks)
            else set()
        )


class QuietTestCase(LibvirtTestCase):
    def test_suspended_meanwhile(self):
        self.server('a')
        self.server('b')
        with self.quiescer.quiet({'a', 'b'}):
            self.assertEqual({'a': 3, 'b': 3}, self.states())
            self.assertEqual({'a', 'b'}, self.suspended())
        self.assertEqual({'a': 1, 'b': 1}, self.states())
        self.assertEqual(set(), self.suspended())

    def test_others_stay_as_they_are(self):
        self.server('paused', fake_libvirt.VIR_DOMAIN_PAUSED)
        self.server('off', fake_libvirt.VIR_DOMAIN_SHUTOFF)
        before = self.states()
        with self.quiescer.quiet({'paused', 'off', 'elsewhere'}):
            self.assertEqual(set(), self.suspended())
        self.assertEqual(before, self.states())

    def test_resumed_after_an_error(self):
        self.server('a')

        def fail():
            with self.quiescer.quiet({'a'}):
                raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, fail)
        self.assertEqual({'a': 1}, self.states())
        self.assertEqual(set(), self.suspended())

    def test_one_refuses(self):
        self.server('a')
        self.server('b')
        fake_libvirt.refuses.add('b')

        def attempt():
            with self.quiescer.quiet({'a', 'b'}):
                self.fail('b is not suspended')

        error = self.assertRaises(exception.DiskError, attempt)
        self.assertIn('does not suspend server b', str(error))
        self.assertEqual({'a': 1, 'b': 1}, self.states())
        self.assertEqual(set(), self.suspended())

    def test_tried_again_where_it_is_not_resumed(self):
        self.server('a')
        with self.quiescer.quiet({'a'}):
            fake_libvirt.refuses.add('a')
        self.assertEqual({'a': 3}, self.states())
        self.quiescer.recover()
        self.assertEqual({'a'}, self.suspended())
        fake_libvirt.refuses.clear()
        self.quiescer.recover()
        self.assertEqual({'a': 1}, self.states())
        self.assertEqual(set(), self.suspended())

    def test_killed(self):
        self.server('a')
        with subprocess.Popen(
            [sys.executable, '-c', KILLED, self.locks, self.marks],
            stdout=subprocess.PIPE,
            env={**os.environ, 'FAKE_LIBVIRT': str(self.domains)},
            text=True,
        ) as process:
            self.addCleanup(process.kill)
            self.assertEqual('quiet\n', process.stdout.readline())
            self.assertEqual({'a': 3}, self.states())
            process.kill()
        self.assertEqual({'a': 3}, self.states())
        self.quiescer.recover()
        self.assertEqual({'a': 1}, self.states())
        self.assertEqual(set(), self.suspended())

    def test_nothing_to_recover(self):
        self.quiescer.recover()
        self.assertFalse(os.path.exists(self.marks))
        self.assertEqual([], fake_libvirt.uris)

    def test_server_gone_since(self):
        self.server('a')
        with self.quiescer.quiet({'a'}):
            (self.domains / 'a').unlink()
        self.assertEqual(set(), self.suspended())


class HypervisorTestCase(LibvirtTestCase):
    def test_uris(self):
        self.server('a')
        good = [URI, 'qemu+unix:///system?socket=/run/libvirt/libvirt-sock']
        for uri in good:
            self.assertTrue(hypervisor.running(uri, 'a'))
        self.assertEqual(good, fake_libvirt.uris)
        for uri in (
            'qemu+ext:///system?command=/bin/sh',
            'qemu+ssh://host/system',
            'qemu:///system?socket=/x&command=/bin/sh',
            'qemu:///session',
            '',
        ):
            error = self.assertRaises(
                exception.DiskError, hypervisor.running, uri, 'a'
            )
            self.assertIn(f'vdisk_libvirt_uri={uri} is not qemu', str(error))
        self.assertEqual(good, fake_libvirt.uris)

    def test_no_libvirt_python(self):
        with mock.patch.dict(sys.modules, {'libvirt': None}):
            error = self.assertRaises(
                exception.DiskError, hypervisor.suspend, URI, 'a'
            )
        self.assertIn('need libvirt-python', str(error))
