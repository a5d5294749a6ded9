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

import errno
import os

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import plain_queue
from tests.unit.nova_diskplacer.agent import test_queue_tuner

UUID = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'


class PlainQueueTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.kernel = test_queue_tuner.Kernel()
        self.kernel.add('sda')
        test_queue_tuner.patch_queues(self, self.kernel)
        for setting, value in (
            ('scheduler', 'bfq'),
            ('nr_requests', '300'),
            ('wbt_lat_usec', '75000'),
            ('nomerges', '2'),
        ):
            self.kernel.write('sda', setting, value)
        self.originals = dict(self.kernel.queues['sda'])
        self.state = self.useFixture(fixtures.TempDir()).path

    def applied(self):
        return plain_queue.applied(self.state, UUID, 'sda')

    def assertPlain(self):
        values = self.kernel.queues['sda']
        self.assertEqual('none', values['scheduler'])
        self.assertEqual('1', values['nomerges'])

    def assertRestored(self):
        self.assertEqual(self.originals, self.kernel.queues['sda'])
        self.assertEqual([], os.listdir(os.path.join(self.state, 'measure')))

    def test_all_settings_are_restored(self):
        with self.applied():
            self.assertPlain()
            # the scheduler has reset it
            self.assertEqual('128', self.kernel.queues['sda']['nr_requests'])
        self.assertRestored()

    def test_after_an_error(self):
        for error in (exception.DiskError, SystemExit, KeyboardInterrupt):

            def fail(error=error):
                with self.applied():
                    raise error

            self.assertRaises(error, fail)
            self.assertRestored()

    def test_after_a_killed_process(self):
        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.saved_settings.SavedSettings.restore',
            lambda self, uuid: None,
        ):
            with self.applied():
                pass
        self.assertPlain()
        with self.applied():
            self.assertPlain()
        self.assertRestored()

    def test_a_queue_that_is_plain(self):
        self.kernel.add('sda')
        self.kernel.write('sda', 'nomerges', '1')
        before = list(self.kernel.writes)
        with self.applied():
            self.assertPlain()
        self.assertEqual(before, self.kernel.writes)

    def test_a_queue_without_scheduler(self):
        del self.kernel.queues['sda']['scheduler']
        del self.originals['scheduler']
        with self.applied():
            self.assertEqual('1', self.kernel.queues['sda']['nomerges'])
        self.assertRestored()

    def test_the_kernel_refuses(self):
        def refuse(device, setting, value):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.block_queue.write', refuse
        ):
            error = self.assertRaises(
                exception.DiskError, self.applied().__enter__
            )
        self.assertEqual('the queue of sda: Read-only file system', str(error))
        self.assertRestored()

    def test_the_device_is_removed(self):
        with self.applied():
            del self.kernel.queues['sda']
        self.assertEqual([], os.listdir(os.path.join(self.state, 'measure')))

    def test_originals_that_cannot_be_saved(self):
        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.files.replace', self.refuse
        ):
            self.assertRaises(exception.DiskError, self.applied().__enter__)
        self.assertEqual(self.originals, self.kernel.queues['sda'])

    def refuse(self, *args, **kwargs):
        raise OSError(errno.ENOSPC, 'No space left on device')

    def test_other_errors_are_not_of_the_queue(self):
        def fail():
            with self.applied():
                raise OSError(errno.EIO, 'elsewhere')

        error = self.assertRaises(OSError, fail)
        self.assertEqual('elsewhere', error.strerror)

    def test_lock(self):
        with self.applied():
            self.assertRaises(
                BlockingIOError, plain_queue.lock(UUID, wait=False).__enter__
            )
        with plain_queue.lock(UUID, wait=False):
            pass
