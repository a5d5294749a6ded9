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

import fixtures
from oslotest import base

from nova_diskplacer.agent import cache_mode
from nova_diskplacer.disks import discover
from nova_diskplacer.host import libvirt_servers

FILES = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'
GROUP = '2c6e9c62-6ed4-4c7e-8f50-8c6df4d7f513'


class CacheModesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        directory = self.useFixture(fixtures.TempDir()).path
        self.root = os.path.join(directory, 'disks')
        os.makedirs(os.path.join(self.root, FILES))
        os.symlink(f'/dev/diskplacer-{GROUP}', os.path.join(self.root, GROUP))
        self.disks = [
            discover.missing(uuid, os.path.join(self.root, uuid))
            for uuid in (FILES, GROUP)
        ]
        self.paths = {
            FILES: f'{self.root}/{FILES}/vdisks/volume-1',
            GROUP: f'/dev/diskplacer-{GROUP}/volume-1',
        }
        self.conf = os.path.join(directory, 'nova.conf')
        self.other = os.path.join(directory, 'nova-compute.conf')
        self.modes = cache_mode.CacheModes([self.conf, self.other])
        self.clock = 0

    def configure(self, value, path=None):
        text = f'disk_cachemodes = {value}' if value is not None else ''
        self.write(f'[DEFAULT]\nhost = $my_ip\n[libvirt]\n{text}\n', path)

    def write(self, text, path=None):
        path = path or self.conf
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(text)
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    def server(self, **caches):
        caches = {
            self.paths[GROUP if name == 'block' else FILES]: mode
            for name, mode in caches.items()
        }
        return libvirt_servers.Server(
            's', 's', {}, tuple(caches), caches, True, False, ''
        )

    def of(self, *servers):
        found = self.modes.determine(self.disks, servers)
        return found[FILES], found[GROUP]

    def test_nothing_is_known(self):
        self.assertEqual((None, None), self.of())

    def test_unset_is_none(self):
        self.configure(None)
        self.assertEqual(('none', 'none'), self.of())

    def test_configured(self):
        self.configure('file=writeback, network=unsafe,block=directsync')
        self.assertEqual(('writeback', 'directsync'), self.of())

    def test_the_later_file_wins(self):
        self.configure('file=writeback')
        self.configure('block=writethrough', self.other)
        self.assertEqual(('none', 'writethrough'), self.of())

    def test_directories_are_read_last(self):
        directory = f'{self.conf}.d'
        os.mkdir(directory)
        self.configure('file=unsafe', f'{directory}/1.conf')
        self.configure('file=writeback', f'{directory}/2.conf')
        self.configure('file=unsafe', f'{directory}/3.conf.bak')
        self.configure('file=directsync')
        self.configure('file=none', self.other)
        self.assertEqual(('writeback', 'none'), self.of())
        os.unlink(f'{directory}/2.conf')
        self.assertEqual(('unsafe', 'none'), self.of())

    def test_what_qemu_chooses(self):
        self.configure('file=default')
        self.assertEqual(('writeback', 'none'), self.of())

    def test_what_nova_ignores(self):
        self.configure('file=fast,writeback,block=')
        self.assertEqual(('none', 'none'), self.of())

    def test_a_change_is_seen(self):
        self.configure('file=writeback')
        self.assertEqual(('writeback', 'none'), self.of())
        self.configure('file=directsync')
        self.assertEqual(('directsync', 'none'), self.of())
        os.unlink(self.conf)
        self.assertEqual((None, None), self.of())

    def test_what_servers_have(self):
        self.assertEqual((None, None), self.of(self.server()))
        one = self.server(file='writeback', block='none')
        self.assertEqual(('writeback', 'none'), self.of(one))
        two = self.server(file='writethrough')
        self.assertEqual((None, 'none'), self.of(one, two))
        # not one that is known
        self.assertEqual((None, None), self.of(self.server(file='fast')))

    def test_loop_devices(self):
        """A disk has the mode of what is attached from it as such."""
        self.configure('file=writeback,block=none')
        self.assertEqual(('writeback', 'none'), self.of())
        self.paths[FILES] = f'/dev/diskplacer/{FILES}/volume-1'
        self.assertEqual(('none', 'none'), self.of(self.server(file='none')))
        self.assertEqual('', self.log.output)
        os.unlink(self.conf)
        self.assertEqual(
            ('directsync', 'directsync'),
            self.of(self.server(file='directsync')),
        )

    def test_servers_that_differ_from_what_is_configured(self):
        self.configure('file=directsync')
        server = self.server(file='writeback', block='none')
        for _ in range(2):
            self.assertEqual(('directsync', 'none'), self.of(server))
        self.assertEqual(1, self.log.output.count('file=directsync'))
        self.assertNotIn('block=', self.log.output)

    def test_both_types_differ(self):
        self.configure('file=directsync,block=none')
        server = self.server(file='writeback', block='writeback')
        for _ in range(2):
            self.assertEqual(('directsync', 'none'), self.of(server))
        self.assertEqual(1, self.log.output.count('file=directsync'))
        self.assertEqual(1, self.log.output.count('block=none'))

    def test_a_difference_that_comes_back(self):
        self.configure('file=directsync')
        for mode in ('writeback', 'directsync', 'writeback'):
            self.of(self.server(file=mode))
        self.assertEqual(2, self.log.output.count('file=directsync'))
        # nothing is kept of a server that is gone
        self.of()
        self.assertEqual({}, self.modes._log._last)

    def test_no_configuration(self):
        self.write('nonsense')
        server = self.server(file='writeback')
        for _ in range(2):
            self.assertEqual(('writeback', None), self.of(server))
        self.assertEqual(1, self.log.output.count('cannot be read'))
        self.assertIn(self.conf, self.log.output)

    def test_a_path_that_leads_nowhere(self):
        self.write('')
        self.modes = cache_mode.CacheModes([f'{self.conf}/nova.conf'])
        server = self.server(file='writeback')
        for _ in range(2):
            self.assertEqual(('writeback', None), self.of(server))
        self.assertEqual(1, self.log.output.count('cannot be read'))


class CommonTest(base.BaseTestCase):
    def test_common(self):
        self.assertIsNone(cache_mode.common([]))
        self.assertEqual('none', cache_mode.common(['none', 'none']))
        self.assertIsNone(cache_mode.common(['none', 'writeback']))
        self.assertIsNone(cache_mode.common(['none', None]))
