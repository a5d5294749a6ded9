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

import logging
import os

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.agent import forgotten
from nova_diskplacer.host import nova_conf


class WatchedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )
        self.parsed = []
        self.read = nova_conf.reloading([self.path], self._parse)
        self.clock = 0

    def _parse(self, files):
        self.parsed.append(files)
        if not files:
            return ''
        with open(self.path, encoding='utf-8') as stream:
            text = stream.read()
        if text == 'bad':
            raise ValueError(text)
        return text

    def _write(self, text):
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write(text)
        self.clock += 1
        os.utime(self.path, (self.clock, self.clock))

    def test_read_again_when_it_has_changed(self):
        for text in ('one', 'two'):
            self._write(text)
            self.assertEqual(text, self.read())
            self.assertEqual(text, self.read())
        self.assertEqual([[self.path]] * 2, self.parsed)

    def test_it_has_changed_twice_at_one_time(self):
        self._write('one')
        self.read()
        self.clock -= 1
        self._write('and two')
        self.assertEqual('and two', self.read())

    def test_no_file(self):
        self.assertEqual('', self.read())
        self._write('one')
        self.assertEqual('one', self.read())
        os.unlink(self.path)
        self.assertEqual('', self.read())
        self.assertEqual([[], [self.path], []], self.parsed)

    def test_an_error_is_raised_until_it_is_repaired(self):
        self._write('good')
        self.read()
        self._write('bad')
        for _ in range(2):
            self.assertRaises(ValueError, self.read)
        self._write('good')
        self.assertEqual('good', self.read())


class AssociationRefreshTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'nova.conf'
        )

    def _write(self, text):
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write('[compute]\n' + text)

    def _option(self, value):
        self._write(f'resource_provider_association_refresh = {value}\n')

    def test_as_configured(self):
        for value in (0, 300, 86400):
            self._option(value)
            self.assertEqual(value, nova_conf.association_refresh([self.path]))

    def test_the_default_is_that_of_nova(self):
        self._write('')
        self.assertEqual(300, nova_conf.association_refresh([self.path]))

    def test_no_file(self):
        self.assertIsNone(nova_conf.association_refresh([]))

    def test_no_configuration(self):
        for value in ('soon', -1):
            self._option(value)
            error = self.assertRaises(
                exception.DiskPlacerError,
                nova_conf.association_refresh,
                [self.path],
            )
            self.assertIn('nova_conf', str(error))

    def test_how_long_providers_are_kept(self):
        keep = forgotten.retention_from([self.path])
        self.assertIsNone(keep())
        for value, expected in ((300, 4200), (86400, 176400)):
            self._option(value)
            self.assertEqual(expected, keep())
        log = self.useFixture(fixtures.FakeLogger(level=logging.DEBUG))
        for value in (0, 'soon'):
            self._option(value)
            for _ in range(3):
                self.assertIsNone(keep())
        self.assertEqual(1, log.output.count('forgotten disks stay'))
