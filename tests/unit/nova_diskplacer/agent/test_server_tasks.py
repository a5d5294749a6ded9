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

import threading
import time

import fixtures
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import server_tasks


class Task:
    """Records its calls."""

    def __init__(self, conf):
        if self.broken:
            raise exception.ProfileError('no such luck')
        self.seen = []
        self.made.append(self)

    def apply(self, servers, disks):
        self.seen.append((servers, disks))
        self.libvirt.call()


class Libvirt:
    """Answers at once, or hangs until ``answers`` is set."""

    def __init__(self):
        self.threads = []
        self.answers = threading.Event()
        self.answers.set()

    def call(self):
        self.threads.append(threading.current_thread())
        self.answers.wait(20)

    def end(self):
        self.answers.set()
        for thread in self.threads:
            thread.join()


class ServerTasksTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        conf = cfg.ConfigOpts()
        options.register_opts(conf)
        conf([], default_config_files=[])
        self.answer = ['a server']
        self.libvirt = Libvirt()
        self.addCleanup(self.libvirt.end)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.libvirt_servers.list_servers',
                self.domains,
            )
        )
        self.tuner = self.fake_task('queue_tuner.QueueTuner')
        self.affinity = self.fake_task('numa_affinity.Affinity')
        self.tasks = server_tasks.ServerTasks(conf)

    def domains(self, uri):
        self.assertEqual('qemu:///system', uri)
        self.libvirt.call()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def fake_task(self, name):
        class Mine(Task):
            broken = False
            made = []
            libvirt = Libvirt()

        self.useFixture(
            fixtures.MonkeyPatch(f'nova_diskplacer.agent.{name}', Mine)
        )
        return Mine

    def test_all_tasks_run(self):
        self.assertIsNone(self.tasks.servers)
        self.tasks.run(['a disk'])
        self.tasks.run(['another'])
        self.assertEqual(['a server'], self.tasks.servers)
        for kind in (self.tuner, self.affinity):
            (made,) = kind.made
            self.assertEqual(
                [
                    (['a server'], ['a disk']),
                    (['a server'], ['another']),
                ],
                made.seen,
            )

    def test_libvirt_does_not_answer(self):
        self.tasks.run([])
        self.answer = exception.HypervisorError('libvirt is away')
        for _ in range(2):
            self.tasks.run([])
        self.assertEqual(1, len(self.tuner.made[0].seen))
        self.assertEqual(1, self.log.output.count('libvirt is away'))
        # The last list stays.
        self.assertEqual(['a server'], self.tasks.servers)

    def hang(self, libvirt):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.agent.server_tasks._PATIENCE', 0.05
            )
        )
        libvirt.answers.clear()

    def test_libvirt_hangs(self):
        self.hang(self.libvirt)
        began = time.monotonic()
        for _ in range(3):
            self.tasks.run([])
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(1, len(self.libvirt.threads))
        self.assertEqual(1, self.log.output.count('libvirt does not answer'))
        self.assertEqual([], self.affinity.made)
        self.libvirt.end()
        self.tasks.run([])
        self.assertEqual(2, len(self.libvirt.threads))
        self.assertEqual(['a server'], self.tasks.servers)
        self.assertIn('can be listed again', self.log.output)
        self.assertEqual(1, len(self.affinity.made[0].seen))

    def test_libvirt_hangs_while_servers_are_pinned(self):
        self.affinity.libvirt = pins = Libvirt()
        self.addCleanup(pins.end)
        self.hang(pins)
        for _ in range(3):
            self.tasks.run([])
        self.assertEqual(1, len(pins.threads))
        self.assertEqual(1, len(self.libvirt.threads))
        for text in (
            'vCPU threads cannot be pinned, trying again: libvirt does not',
            'this host cannot be listed, trying again: libvirt does not',
        ):
            self.assertEqual(1, self.log.output.count(text))
        pins.end()
        self.tasks.run([])
        self.assertIn('are pinned again', self.log.output)
        self.assertEqual(2, len(pins.threads))

    def test_a_task_that_cannot_be_created_is_retried(self):
        self.tuner.broken = True
        for _ in range(2):
            self.tasks.run([])
        self.assertEqual(1, self.log.output.count('no such luck'))
        self.assertEqual(2, len(self.affinity.made[0].seen))
        self.tuner.broken = False
        self.tasks.run([])
        self.assertEqual(1, len(self.tuner.made[0].seen))
        self.assertIn('Disk queues are tuned again', self.log.output)
