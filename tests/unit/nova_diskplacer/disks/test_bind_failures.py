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

import concurrent.futures
import os
import pathlib

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.disks import bind_failures
from nova_diskplacer.disks import discover


class BindFailuresTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.root = self.useFixture(fixtures.TempDir()).path
        self.file = pathlib.Path(self.root, bind_failures.FILE)

    def test_none(self):
        none = dict.fromkeys(bind_failures.REASONS, 0)
        self.assertEqual(none, bind_failures.read(self.root))
        self.assertEqual(none, bind_failures.read(f'{self.root}/none'))
        self.assertEqual('', self.log.output)

    def test_all_that_count_at_once_are_counted(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [
                pool.submit(bind_failures.count, self.root, reason)
                for reason in ('disk', 'disk', 'nova') * 10
            ]
        for job in jobs:
            job.result()
        self.assertEqual(
            {'refused': 0, 'disk': 20, 'placement': 0, 'nova': 10, 'other': 0},
            bind_failures.read(self.root),
        )

    def test_the_file_is_no_disk(self):
        bind_failures.count(self.root, 'other')
        self.assertEqual(
            {bind_failures.FILE, f'{bind_failures.FILE}.lock'},
            set(os.listdir(self.root)),
        )
        self.assertEqual([], discover.discover(self.root))

    def test_a_broken_file_is_replaced(self):
        for text in ('', '[]', '{"disk": 1}', '{'):
            self.file.write_text(text)
            bind_failures.count(self.root, 'disk')
            self.assertEqual(1, bind_failures.read(self.root)['disk'])
        self.assertIn(str(self.file), self.log.output)

    def test_a_broken_file_is_logged_once(self):
        for _ in range(2):
            self.file.write_text('{')
            for _ in range(3):
                bind_failures.read(self.root)
            bind_failures.count(self.root, 'disk')
            bind_failures.read(self.root)
        self.assertEqual(2, self.log.output.count('is not used'))

    def test_errors(self):
        for root, reason, named in (
            (self.root, 'bad luck', "'bad luck'"),
            (f'{self.root}/none', 'disk', f'{self.root}/none'),
        ):
            error = self.assertRaises(
                exception.DiskError, bind_failures.count, root, reason
            )
            self.assertIn(named, str(error))
