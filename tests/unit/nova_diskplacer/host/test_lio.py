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
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import lio

IQN = 'iqn.2010-10.org.openstack:volume-1'
ONE, TWO = 'iqn.1993-08.org.debian:01:one', 'iqn.1993-08.org.debian:01:two'


class AdmitTestCase(testtools.TestCase):
    """The kernel makes and removes what belongs to a directory."""

    def setUp(self):
        super().setUp()
        self.targets = self.useFixture(fixtures.TempDir()).path
        self.group = f'{self.targets}/{IQN}/tpgt_1'
        for name in ('acls', 'lun/lun_0'):
            os.makedirs(f'{self.group}/{name}')
        mkdir = os.mkdir

        def make(path):
            mkdir(path)
            if os.path.dirname(path) == f'{self.group}/acls':
                mkdir(f'{path}/auth')
                for name in ('userid', 'password'):
                    os.close(os.open(f'{path}/auth/{name}', os.O_CREAT))

        def remove(path):
            for entry in os.scandir(path):
                # the kernel removes no mapped LUN with its initiator
                if entry.name.startswith('lun_') or entry.is_symlink():
                    raise OSError(39, 'Directory not empty')
            subprocess.run(['rm', '-r', path], check=True)

        for name, value in (
            ('os.mkdir', make),
            ('os.rmdir', remove),
            ('nova_diskplacer.host.lio.TARGETS', self.targets),
        ):
            self.useFixture(fixtures.MonkeyPatch(name, value))

    def read(self, initiator, name):
        with open(f'{self.group}/acls/{initiator}/{name}') as stream:
            return stream.read()

    def test_one(self):
        for _ in range(2):
            lio.admit(IQN, ONE, 'user', 'secret')
        self.assertEqual([ONE], os.listdir(f'{self.group}/acls'))
        self.assertEqual('user', self.read(ONE, 'auth/userid'))
        self.assertEqual('secret', self.read(ONE, 'auth/password'))
        (link,) = os.scandir(f'{self.group}/acls/{ONE}/lun_0')
        self.assertEqual(f'{self.group}/lun/lun_0', os.readlink(link.path))

    def test_no_other(self):
        lio.admit(IQN, ONE, 'user', 'secret')
        lio.admit(IQN, TWO, 'user', 'other')
        self.assertEqual([TWO], os.listdir(f'{self.group}/acls'))
        self.assertEqual('other', self.read(TWO, 'auth/password'))

    def test_the_vdisk_is_there_only_with_the_secret(self):
        with mock.patch.object(lio, '_write', side_effect=OSError(22, 'no')):
            self.assertRaises(
                exception.DiskError, lio.admit, IQN, ONE, 'user', 'secret'
            )
        self.assertFalse(os.path.exists(f'{self.group}/acls/{ONE}/lun_0'))

    def test_names_that_rtslib_takes(self):
        for name in (
            'iqn.1991-05.com.microsoft:host-1.example.org',
            'iqn.2016-04.com.open-iscsi:a5de1e5d9c7f',
            'naa.5001405abcdef012',
            'eui.0123456789abcdef',
        ):
            lio.admit(IQN, name, 'user', 'secret')
            self.assertEqual([name], os.listdir(f'{self.group}/acls'))

    def test_names(self):
        for iqn, initiator in (
            (f'../{IQN}', ONE),
            (IQN, f'{ONE}/../{TWO}'),
            (IQN, ''),
            (IQN, f'{ONE}\n'),
            # rtslib would remove the target of none of these
            (IQN, 'iqn.2016-04.test:one'),
            (IQN, 'iqn.1993-08.org.debian:01:One'),
            (IQN, 'iqn.1993-08.org.debian:host_1'),
            (IQN, 'naa.6001405'),
            ('', ONE),
            (f'{IQN}2', ONE),
        ):
            error = self.assertRaises(
                exception.DiskError, lio.admit, iqn, initiator, 'u', 'secret'
            )
            self.assertNotIn('secret', str(error))
        self.assertEqual([], os.listdir(f'{self.group}/acls'))


class WholeTestCase(testtools.TestCase):
    """As cinder-rtstool makes a target."""

    def test_from_nothing(self):
        targets = self.useFixture(fixtures.TempDir()).path
        self.useFixture(
            fixtures.MonkeyPatch(f'{lio.__name__}.TARGETS', targets)
        )
        group = f'{targets}/{IQN}/tpgt_1'

        def enable(value):
            with open(f'{group}/enable', 'w') as stream:
                stream.write(f'{value}\n')

        for act, whole in (
            (lambda: None, False),
            (lambda: os.makedirs(f'{targets}/{IQN}'), False),
            (
                lambda: [
                    os.makedirs(f'{group}/{name}') for name in ('lun', 'np')
                ],
                False,
            ),
            (lambda: enable(0), False),
            (lambda: os.mkdir(f'{group}/lun/lun_0'), False),
            (lambda: os.symlink('/core', f'{group}/lun/lun_0/vdisk'), False),
            (lambda: enable(1), False),
            (lambda: os.mkdir(f'{group}/np/192.0.2.1:3260'), True),
            # a boot without the device
            (lambda: os.unlink(f'{group}/lun/lun_0/vdisk'), False),
        ):
            act()
            self.assertIs(whole, lio.is_whole(IQN))
