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

import contextlib
import os

import fixtures
import psutil
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import tracefs

# as Linux 6.18 and 6.1 have them
READ = (
    '   CPU 0/KVM (x)-16142   (  16126) [000] ..... 13781.915237: '
    'block_bio_queue: 7,0 R 7904 + 8 [CPU 0/KVM]'
)
UNKNOWN = (
    '  kworker/u4:2-81      (-------) [001] d..1.    12.000001: '
    'block_bio_queue: 254,16 WFS 64 + 256 [kworker/u4:2]'
)
# without irq-info
PLAIN = (
    '     fio-9       (      7) [001]    12.000001: '
    'block_bio_queue: 8,0 RAS 8 + 16 [fio]'
)


class ParseTest(testtools.TestCase):
    def test_read(self):
        self.assertEqual(
            tracefs.Request('7:0', 16126, 7904 * 512, 4096),
            tracefs.parse(READ),
        )

    def test_process_not_known(self):
        self.assertEqual(
            tracefs.Request('254:16', 81, 32768, 131072),
            tracefs.parse(UNKNOWN),
        )

    def test_without_flags(self):
        self.assertEqual(
            tracefs.Request('8:0', 7, 4096, 8192), tracefs.parse(PLAIN)
        )

    def test_after_a_flush(self):
        line = READ.replace(' R ', ' FWFS ')
        self.assertEqual('7:0', tracefs.parse(line).device)

    def test_neither_read_nor_write(self):
        for line in (
            '',
            'CPU:0 [LOST 35 EVENTS]',
            READ.replace(' R ', ' D '),
            READ.replace(' R ', ' DS '),
            READ.replace(' R ', ' FF ').replace('+ 8', '+ 0'),
            READ.replace(' R ', ' W ').replace('+ 8', '+ 0'),
            READ.replace(' R ', ' N '),
            READ.replace('bio_queue', 'bio_complete'),
        ):
            self.assertIsNone(tracefs.parse(line), line)

    def test_no_name_is_taken_for_a_process(self):
        for name in ('-1 (2) [0] . 1', 'a-1', '-1   (      2)', 'x\ny'):
            line = READ.replace('CPU 0/KVM (x)', name)
            self.assertEqual(16126, tracefs.parse(line).process)


class ConditionTest(testtools.TestCase):
    def test_named(self):
        self.assertEqual(
            'dev == 7340032 || dev == 266338320',
            tracefs.device_filter({'254:16', '7:0'}),
        )

    def test_too_many(self):
        numbers = [f'253:{minor}' for minor in range(300)]
        self.assertEqual(
            f'dev >= {253 << 20} && dev <= {(253 << 20) + 299}',
            tracefs.device_filter(numbers),
        )
        # a page is 4096 bytes
        numbers = [f'4095:{(1 << 20) - 1 - minor}' for minor in range(100)]
        self.assertLess(len(tracefs.device_filter(numbers)), 4096)


class TracerTest(testtools.TestCase):
    """With a directory in the place of tracefs."""

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).path
        os.mkdir(f'{self.path}/instances')
        os.mkdir(f'{self.path}/self')
        with open(f'{self.path}/self/mounts', 'w') as stream:
            stream.write(f'tracefs {self.path} tracefs rw 0 0\n')
        self.patch(psutil, 'PROCFS_PATH', self.path)
        self.tracer = tracefs.Tracer('mine')

    def test_clean(self):
        os.mkdir(f'{self.path}/instances/mine')
        os.mkdir(f'{self.path}/instances/other')
        self.tracer.clean()
        self.tracer.clean()
        self.assertEqual(['other'], os.listdir(f'{self.path}/instances'))

    def test_nothing_is_left_of_a_failure(self):
        with contextlib.closing(self.tracer.sample(['7:0'], 1.0)) as portions:
            error = self.assertRaises(
                exception.ContentionError, next, portions
            )
        self.assertIn('mine/buffer_size_kb: No such file', str(error))
        self.assertEqual([], os.listdir(f'{self.path}/instances'))

    def test_not_mounted(self):
        os.truncate(f'{self.path}/self/mounts', 0)
        self.tracer.clean()
        error = self.assertRaises(
            exception.ContentionError, next, self.tracer.sample(['7:0'], 1.0)
        )
        self.assertIn('mount -t tracefs', str(error))
