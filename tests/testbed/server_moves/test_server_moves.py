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

"""The data of a server follows it over the kernel's iSCSI."""

import contextlib
import os
import signal
import threading
import time
from concurrent import futures
from unittest import mock

import rtslib_fb
from cinder import exception as cinder_exc

from cinder_vdisk_mapper.server_moves import record
from cinder_vdisk_mapper.server_moves import remote
from cinder_vdisk_mapper.server_moves import settle_attempt
from cinder_vdisk_mapper.server_moves import settle_move
from cinder_vdisk_mapper.server_moves import settler
from nova_diskplacer.disks.lvm import prepare as lvm_prepare
from tests.testbed.server_moves import database
from tests.testbed.server_moves import hosts
from tests.testbed.server_moves import iscsi
from tests.testbed.server_moves.hosts import SOURCE
from tests.testbed.server_moves.hosts import TARGET
from tools.testbed import udev

# Seconds for which the network is lost.
LOST = 60


class MovesTestCase(hosts.HostsTestCase):
    def setUp(self):
        super().setUp()
        self.first = self.attach(SOURCE)
        self.is_on(SOURCE)

    def migrate(self):
        """Migrate the server live; returns the attachment on the target."""
        second = self.begin()
        self.assertEqual(record.ATTACHED, self.phase)
        self.is_on(TARGET)
        self.detach(self.first)
        self.assertEqual(record.LEFT, self.phase)
        self.assertAttachedThere()
        return second

    def settle(self, report=lambda done, total: None):
        """Do as the mover for a server that does not run."""
        # udev looks at what a process has written to
        udev.settle()
        stopped = mock.Mock(rate=0)
        stopped.find.return_value = None
        settle_attempt.settle(
            settle_move.SettleMove(
                self.drivers[TARGET]._connections.moves.destination,
                stopped,
                self.volume_id,
                self.name,
                self.server.uuid,
                self.disks[TARGET],
                report,
                lambda: False,
            )
        )

    def end(self, attachment, host):
        """Detach and delete the volume, which leaves nothing anywhere."""
        self.detach(attachment)
        self.assertIsOn(host)
        self.delete()
        self.assertEqual([], self.held(host))
        self.assertFalse(os.path.lexists(self.link(host)))
        self.assertEqual([], iscsi.loops())

    def forked(self, run):
        """Have another process run something; returns its PID."""
        child = os.fork()
        if not child:
            # it never returns
            with contextlib.suppress(BaseException):
                database.reconnect()
                run()
            os._exit(1)
        return child

    def assertKilled(self, child):
        _, status = os.waitpid(child, 0)
        self.assertEqual(signal.SIGKILL, os.WTERMSIG(status), status)


class FollowsTests:
    """What each kind of vdisk does."""

    def test_follows_its_server(self):
        self.write(SOURCE).stop()
        second = self.migrate()
        self.write(TARGET).stop()
        began = time.monotonic()
        self.settle()
        print(f'1 GiB was copied in {time.monotonic() - began:.1f} s')
        self.assertIsOn(TARGET)
        self.write(TARGET).stop()
        self.end(second, TARGET)


class ThickTestCase(FollowsTests, MovesTestCase):
    lvm_options = lvm_prepare.Options(zero=False)

    def test_aborted(self):
        running = self.write(SOURCE)
        self.assertRaises(
            cinder_exc.VolumeDriverException,
            self.begin,
            initiator=hosts.initiator('another'),
        )
        self.assertIn('no login to', self.log.output)
        self.assertIsOn(SOURCE)
        properties = remote._properties
        with mock.patch.object(
            remote,
            '_properties',
            lambda target: properties(target) | {'auth_password': 'wrong' * 3},
        ):
            self.assertRaises(cinder_exc.VolumeDriverException, self.begin)
        self.assertIsOn(SOURCE)
        self.detach(self.begin())
        self.rollback()
        self.assertIsOn(SOURCE)
        running.wait()
        running.stop()
        self.end(self.first, SOURCE)

    def test_the_session_is_lost(self):
        self.write(SOURCE).stop()
        second = self.migrate()
        # requests would fail soon
        self.assertNotEqual('off', iscsi.recovery_tmo())
        service = settler.Settler(
            {
                'target@vdisk': self.drivers[
                    TARGET
                ]._connections.moves.destination
            },
            '',
            settler.Limits(),
            threading.Event(),
        )
        # it looks, and copies nothing yet
        self.is_on(TARGET, 'rebooting')
        with futures.ThreadPoolExecutor() as pool:
            service.look(pool)
        self.assertEqual('off', iscsi.recovery_tmo())
        running = self.write(TARGET)
        with iscsi.lost_network():
            time.sleep(1)
            before = running.rounds
            time.sleep(LOST)
            self.assertEqual(before, running.rounds)
        seconds = running.wait()
        print(f'lost for {LOST} s, and back after {seconds:.1f} s')
        running.stop()
        # it goes back to where its data is
        self.detach(second)
        self.first = self.attach(SOURCE)
        self.rollback()
        self.write(SOURCE).stop()
        self.end(self.first, SOURCE)


class ThinTestCase(FollowsTests, MovesTestCase):
    lvm_options = lvm_prepare.Options(thin=True, zero=False)

    def test_killed_while_it_is_copied(self):
        self.write(SOURCE).stop()
        second = self.migrate()
        self.write(TARGET).stop()

        def die(done, total):
            if done > total / 4:
                os.kill(os.getpid(), signal.SIGKILL)

        self.assertKilled(self.forked(lambda: self.settle(die)))
        self.assertEqual(record.LEFT, self.phase)
        # both services start
        for host in hosts.HOSTS:
            self.restart(host)
        self.assertAttachedThere()
        self.write(TARGET).stop()
        self.settle()
        self.assertIsOn(TARGET)
        self.write(TARGET).stop()
        self.end(second, TARGET)


class FileTestCase(FollowsTests, MovesTestCase):
    """Files, which are attached as loop devices."""

    def killed(self, target, attribute, run):
        """Have a cinder-volume die in Cinder's tool for LIO."""

        def die(*arguments, **options):
            os.kill(os.getpid(), signal.SIGKILL)

        def run_and_die():
            with mock.patch.object(target, attribute, die):
                run()

        self.assertKilled(self.forked(run_and_die))

    def export_killed(self, attribute):
        """Begin a migration whose cinder-volume dies."""
        self.killed(rtslib_fb, attribute, self.begin)
        self.assertEqual(record.ATTACHING, self.phase)
        # Nova deletes what it has not got a connection of
        for attachment in self.volume.volume_attachment:
            if not attachment.connector:
                attachment.destroy()
        # what the process did to Nova
        self.claim(TARGET)
        self.is_on(SOURCE, 'migrating')

    def test_killed_while_it_is_exported(self):
        running = self.write(SOURCE)
        for attribute in ('Target', 'TPG', 'LUN', 'NetworkPortal'):
            self.export_killed(attribute)
            self.assertNotEqual([], iscsi.backstores())
            # it starts, and nobody asks again
            self.restart(SOURCE)
            self.assertIsOn(SOURCE)
        self.export_killed('LUN')
        # Nova asks again
        second = self.attach(TARGET)
        self.assertAttachedThere()
        # the target is gone, and the device is open still
        self.killed(
            rtslib_fb.BlockStorageObject,
            'delete',
            lambda: self.detach(second),
        )
        self.assertEqual([], iscsi.targets())
        self.assertNotEqual([], iscsi.backstores())
        second.destroy()
        self.rollback()
        self.restart(SOURCE)
        self.assertIsOn(SOURCE)
        running.wait()
        running.stop()
        self.end(self.first, SOURCE)
