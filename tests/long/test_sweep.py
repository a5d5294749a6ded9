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

"""A sweep on real services, killed and continued."""

import json
import os
import pathlib
import signal
import subprocess
import time

import fixtures

from diskplacer_measure.sweep import results
from nova_diskplacer.host import block_queue
from tests.e2e import base
from tools.minicloud import config
from tools.minicloud import guest
from tools.minicloud import ini
from tools.minicloud import process

IMAGE = 'guest-with-fio'
PREFIX = 'diskplacer-sweep-'
# one operation each of bare metal, a server, and two servers
CELLS = 6


class SweepTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.conf = self.cloud.state.host_dir(self.host) / 'diskplacer.conf'
        self.disk = self.choose_disk()
        self.before = self.queue().values
        self.scheduler = self.choose_scheduler()
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.results = directory / 'results'
        self.make_image(IMAGE, guest.build_with_fio)

    def make_image(self, name, build):
        """Make the image of a guest that runs user data, once."""
        if not self.api.get('image', f'/v2/images?name={name}')['images']:
            self.cloud.create_guest_image(
                name, *build(), **guest.DRIVE_PROPERTIES
            )

    def choose_disk(self):
        """Return a disk of the backend of volume type vdisk."""
        text = self.cloud.manage(self.host, 'disk', 'list', '--format=json')
        medium = self.cloud.hosts[0].media[0]
        return next(
            disk for disk in json.loads(text) if disk['medium'] == medium
        )

    def arguments(self, command, *options, disk=None):
        return [
            f'{ini.BIN}/diskplacer-manage',
            f'--config-file={self.conf}',
            'sweep',
            command,
            disk or self.disk['uuid'],
            '--quick',
            '--shape=1:384',
            '--repetitions=1',
            f'--host-scheduler={self.scheduler}',
            *options,
        ]

    def start(self):
        sweep = subprocess.Popen(
            self.arguments(
                'run',
                f'--results={self.results}',
                f'--image={IMAGE}',
                f'--boot-timeout={base.GUEST_TIMEOUT}',
            ),
            env=process.environment(**config.login(self.cloud.state)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(sweep.communicate)
        self.addCleanup(sweep.kill)
        return sweep

    def choose_scheduler(self):
        """Return an I/O scheduler that the disk does not have now."""
        now = self.before[block_queue.SCHEDULER]
        return next(
            (name for name in self.queue().schedulers if name != now), now
        )

    def queue(self):
        return block_queue.read(
            block_queue.exclusive_device(self.disk['device'])
        )

    def servers(self):
        path = f'/servers?all_tenants=1&name={PREFIX}'
        return self.api.get('compute', path)['servers']

    def flavors(self):
        path = '/flavors?is_public=None'
        return [
            flavor['name']
            for flavor in self.api.get('compute', path)['flavors']
            if flavor['name'].startswith(PREFIX)
        ]

    def claims(self):
        """Return the consumers that have claims on disks of the host."""
        return {
            consumer
            for disk in self.cloud.disk_providers()
            for consumer in self.api.get(
                'placement', f'/resource_providers/{disk}/allocations'
            )['allocations']
        }

    def assert_nothing_is_left(self):
        self.assertEqual([], self.servers())
        self.assertEqual([], self.flavors())
        self.assertEqual([], self.api.volumes())
        self.assertEqual(set(), self.claims())
        self.assertEqual(self.before, self.queue().values)

    def test_plan(self):
        done = self.cloud.run_manage(
            self.host, *self.arguments('plan', '--format=json')[2:]
        )
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(CELLS, len(json.loads(done.stdout)['cells']))

    def test_killed_and_continued(self):
        run = self.start()
        self.eventually('servers boot', self.servers, base.GUEST_TIMEOUT)
        self.assertIsNone(run.poll())
        # in the middle of a boot
        time.sleep(20)
        os.kill(run.pid, signal.SIGKILL)
        run.communicate()
        header = results.read(self.results).header
        self.assertNotEqual([], self.servers())
        self.assertIn(header.id, self.claims())

        second = self.start()
        _, said = second.communicate()
        self.assertEqual(0, second.returncode, said)
        found = results.read(self.results)
        self.assertEqual(header, found.header)
        self.assertTrue(header.emulated)
        self.assertEqual(CELLS, len(found.results))
        for one in found.results:
            self.assertGreater(one.mbps, 0, one)
            self.assertEqual(one.cell.threads, len(one.rates))
            self.assertTrue(0 < one.serving <= 1, one)
            self.assertIn('idle', one.host_cpu)
        self.assert_nothing_is_left()

        # there is nothing more to do, and nothing is done
        third = self.start()
        _, said = third.communicate()
        self.assertEqual(0, third.returncode, said)
        self.assertEqual(found, results.read(self.results))
        self.assert_nothing_is_left()

    def refused(self, *options, disk=None):
        """Run a sweep that ends with an error, and return that."""
        done = self.cloud.run_manage(
            self.host,
            *self.arguments(
                'run', f'--results={self.results}', *options, disk=disk
            )[2:],
        )
        self.assertEqual(1, done.returncode, done.stderr)
        return done.stderr

    def test_a_server_that_does_not_measure(self):
        # it runs no user data
        said = self.refused(
            '--scenario=server', '--image=guest', '--boot-timeout=120'
        )
        self.assertIn('--boot-timeout is more', said)
        self.assertRegex(said, r'the last lines of its console: .*\S')
        self.assert_nothing_is_left()

    def test_a_disk_in_use(self):
        server = self.boot('round-robin', self.host)
        volume, disk = min(self.disks_of(server).items())
        said = self.refused('--scenario=bare', disk=disk)
        self.assertIn(f'disk {disk} has vdisks, volume-{volume}', said)
        self.assertFalse(self.results.exists())
