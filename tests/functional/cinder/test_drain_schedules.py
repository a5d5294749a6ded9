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

"""Two drains at a time on real disks, in schedules chosen at random."""

import os
import random
import threading
import time
from unittest import mock

from cinder_vdisk_mapper.vdisks import linking
from nova_diskplacer import exception
from nova_diskplacer.disks import move_records
from tests.functional.cinder import test_drain

# Schedules of the test; hundreds before a release.
SCHEDULES = int(os.environ.get('DRAIN_REAL_SCHEDULES', '3'))
SEED = int(os.environ.get('DRAIN_SEED', '1'))

VOLUMES = 4


class Killed(BaseException):
    """The thread that drains ends at once, as a killed process does."""


class ScheduleTestCase(test_drain.DrainerTestCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.told = {'done': 0, 'refused': 0, 'killed': 0, 'stays': 0}
        self.lock = threading.Lock()

    def disturb(self, function):
        """Have a step take some time, or be the last one."""

        def disturbed(*arguments, **more):
            with self.lock:
                delay = self.random.choice((0, 0, 0.01, 0.05))
                before, after = (self.random.random() < 0.04 for _ in range(2))
            time.sleep(delay)
            if before:
                raise Killed
            result = function(*arguments, **more)
            if after:
                raise Killed
            return result

        return disturbed

    def command(self, name, disk, wait):
        time.sleep(wait)
        try:
            left = getattr(self.drainer, name)(disk)
            told = 'stays' if left else 'done'
        except exception.DiskPlacerError as error:
            told = 'refused' if 'another "disk' in str(error) else 'stays'
        except Killed:
            told = 'killed'
        with self.lock:
            self.told[told] += 1

    def schedule(self):
        """Run two or three commands beside each other."""
        backend = self.drainer.operations.backend
        patches = [
            mock.patch.object(
                target, name, self.disturb(getattr(target, name))
            )
            for target, name in (
                (backend, 'copy'),
                (backend, 'create'),
                (backend, 'condemn'),
                (backend, 'link'),
                (linking, 'save_disk'),
                (move_records, 'write'),
                (move_records, 'remove'),
            )
        ]
        for patch in patches:
            patch.start()
        try:
            commands = [
                (
                    self.random.choice(('drain', 'drain', 'drain', 'cancel')),
                    self.random.choice(self.disks),
                    self.random.choice((0, 0, 0.05, 0.2)),
                )
                for _ in range(self.random.choice((2, 2, 3)))
            ]
            threads = [
                threading.Thread(target=self.command, args=one)
                for one in commands
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for patch in patches:
                patch.stop()
        return commands

    def settle(self):
        """Repeat what was killed, until nothing is begun; offer all disks."""
        for _ in range(2):
            for disk in self.disks:
                self.drainer.cancel(disk)
        for disk in self.disks:
            self.assertEqual({}, self.drainer.cancel(disk))
            self.assertEqual(
                {},
                move_records.from_disk(self.host.root, disk),
                'a record is left',
            )

    def test_two_at_a_time(self):
        content = {}
        for number in range(VOLUMES):
            text = f'v{number:02}'.encode()
            self.server_id = self.server()
            self.hints = {'local_to_instance': self.server_id}
            volume, _ = self.bound(content=text)
            content[volume['id']] = volume, text
        moved = 0
        places = {}
        for _ in range(SCHEDULES):
            told = self.schedule()
            self.settle()
            for id_, (volume, text) in content.items():
                with self.subTest(told):
                    disk = self.where(volume)
                    self.assertIsOn(disk, volume, text)
                    moved += places.get(id_, disk) != disk
                    places[id_] = disk
        self.assertEqual(VOLUMES, sum(self.host.reserved().values()))
        self.assertLess(0, moved)
        if SCHEDULES > 10:
            print(SCHEDULES, 'schedules,', moved, 'moves,', self.told)
