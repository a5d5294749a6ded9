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
import dataclasses
import os
import queue
import threading
import time
import uuid

import fixtures
import oslo_messaging

from nova_diskplacer import exception
from nova_diskplacer import reports
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.placement import traits
from tests.functional.agent import base


class AgentTest(base.AgentTestCase):
    def test_reports(self):
        root = self.placement.start_compute()
        disk = self.disks.add()
        server = str(uuid.uuid4())
        self.disks.hold(disk, server)
        self.start_agent()
        self.wait_for(lambda: self.reports.disk(disk))
        report = self.reports.last
        self.assertEqual(base.NODE, report['compute_node'])
        self.assertEqual(root, report['provider'])
        volume = self.disks.all()[0].vdisks[0].volume_id
        self.assertEqual(
            [
                {
                    'uuid': disk,
                    'medium': 'hdd',
                    'model': 'Fake',
                    'numa_node': 0,
                    'can_stripe': False,
                    'total_gb': 100,
                    'reserved_gb': 10,
                    'used_gb': 0,
                    'total_mbps': 150,
                    'used_mbps': 0,
                    'health': 'ok',
                    'vdisks': [
                        {
                            'volume_id': volume,
                            'server_id': server,
                            'size_gb': 10,
                            'is_snapshot': False,
                        }
                    ],
                }
            ],
            report['disks'],
        )

    def test_the_cache_mode_is_reported(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.assertIsNone(self.reports.last['cache_mode'])
        for mode in ('writeback', 'none'):
            with open(self.nova_conf + '.new', 'w') as stream:
                stream.write(f'[libvirt]\ndisk_cachemodes = file={mode}\n')
            # the agent must not read half of it
            os.replace(self.nova_conf + '.new', self.nova_conf)
            self.wait_for(
                lambda mode=mode: self.reports.last['cache_mode'] == mode
            )
            self.wait_for(
                lambda mode=mode: (
                    traits.CACHE_MODES[mode] in self.placement.traits(disk)
                )
            )
        self.assertNotIn(
            traits.CACHE_MODES['writeback'], self.placement.traits(disk)
        )

    def test_confirms_its_report_at_the_interval(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        start = time.monotonic()
        for _ in range(4):
            heartbeat = self.reports.heartbeats.get(timeout=base.PATIENCE)
        # one may have waited
        self.assertGreater(
            time.monotonic() - start, 2 * self.report_interval - 0.5
        )
        self.assertEqual(self.reports.last['digest'], heartbeat['digest'])
        self.assertEqual(1, self.reports.arrived.qsize())

    def test_claims_are_reported(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.reports.disk(disk))
        server = str(uuid.uuid4())
        self.placement.claim(server, {disk: {placement_client.GB: 40}})
        self.wait_for(lambda: self.reports.disk(disk)['used_gb'] == 40)
        self.placement.unclaim(server)
        self.wait_for(lambda: self.reports.disk(disk)['used_gb'] == 0)

    def test_the_compute_node_comes_late(self):
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: len(self.placement.requests) > 2)
        self.assertIsNone(self.reports.last)
        self.assertEqual(1, self.logged('has no resource provider yet'))
        self.placement.start_compute()
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.assertEqual((100, 0), self.placement.inventory(disk))
        self.wait_for(lambda: self.logged('Placement is up to date again'))
        self.assertEqual(1, self.logged('Placement is up to date again'))

    def test_placement_is_away(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.placement.away = True
        self.wait_for(lambda: self.logged('Placement is not up to date'))
        # reports go on, with the disks as they are
        self.disks.hold(disk, None)
        self.wait_for(lambda: self.reports.disk(disk)['vdisks'])
        self.assertEqual(0, self.reports.disk(disk)['reserved_gb'])
        before = len(self.placement.requests)
        self.wait_for(lambda: len(self.placement.requests) > before + 2)
        self.assertEqual(1, self.logged('Placement is not up to date'))
        self.placement.away = False
        self.wait_for(lambda: self.reports.disk(disk)['reserved_gb'] == 10)
        self.assertEqual((100, 10), self.placement.inventory(disk))

    def test_placement_is_away_at_the_start(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.placement.away = True
        self.start_agent()
        self.wait_for(lambda: self.logged('Placement is not up to date'))
        self.placement.away = False
        self.wait_for(lambda: self.health(disk) == 'ok')

    def test_placement_fails_within_the_first_round(self):
        """What a former agent has reported of the disks holds meanwhile."""
        self.placement.start_compute()
        disk, other = self.disks.add(), self.disks.add()
        failed = threading.Event()

        def before(method, url):
            if url.endswith(f'{max(disk, other)}/traits'):
                failed.set()
                raise exception.PlacementError('503')

        self.placement.before = before
        agent = self.start_agent()
        self.assertTrue(failed.wait(base.PATIENCE))
        self.wait_for(lambda: self.logged('Placement is not up to date'))
        agent.request()
        agent.request_fresh()
        failed.clear()
        self.assertTrue(failed.wait(base.PATIENCE))
        self.placement.before = lambda method, url: None
        self.wait_for(lambda: self.health(disk) == 'ok')
        while not self.reports.arrived.empty():
            report = self.reports.arrived.get()
            self.assertEqual(2, len(report['disks']), report)

    def test_a_busy_disk_holds_back_no_figures_of_others(self):
        self.placement.start_compute()
        busy, other = self.disks.add(), self.disks.add()
        agent = self.start_agent()
        self.wait_for(lambda: self.health(other) == 'ok')
        self.disks.hold(busy, None)
        inspect = discover.inspect

        def late(disk_root, uuid_, patience=0.0):
            disk = inspect(disk_root, uuid_, patience)
            return dataclasses.replace(disk, late=uuid_ == busy)

        with fixtures.MonkeyPatch(
            'nova_diskplacer.disks.discover.inspect', late
        ):
            self.placement.claim(
                str(uuid.uuid4()),
                {
                    disk: {placement_client.GB: 7, placement_client.MBPS: 5}
                    for disk in (busy, other)
                },
            )
            agent.request_fresh()
            self.wait_for(lambda: self.reports.disk(other)['used_gb'] == 7)
            self.assertTrue(self.logged('does not answer in time'))
            self.assertEqual(0, self.reports.disk(busy)['used_gb'])
        self.wait_for(lambda: self.reports.disk(busy)['used_gb'] == 7)

    def test_placement_does_not_answer(self):
        # the watch goes on while a request hangs
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        hung = threading.Event()
        answer = threading.Event()
        self.addCleanup(answer.set)

        def before(method, url):
            hung.set()
            # longer than what follows is waited for
            answer.wait(2 * base.PATIENCE)

        self.placement.before = before
        self.assertTrue(hung.wait(base.PATIENCE))
        self.disks.lose(disk)
        self.wait_for(lambda: self.health(disk) == 'missing')

    def test_a_disk_disappears_and_returns(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        whole = self.disks.all()[0]
        self.disks.lose(disk)
        self.wait_for(lambda: self.health(disk) == 'missing')
        self.wait_for(lambda: self.placement.inventory(disk) == (100, 100))
        self.disks.put_back(whole)
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.wait_for(lambda: self.placement.inventory(disk) == (100, 0))

    def test_a_disk_is_forgotten(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.disks.forget(disk)
        self.wait_for(lambda: self.reports.disk(disk) is None)
        self.wait_for(lambda: self.placement.inventory(disk) is None)

    def test_the_disks_cannot_be_looked_at(self):
        self.placement.start_compute()
        disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(disk) == 'ok')
        look = discover.discover
        looks = []

        def fail(disk_root):
            looks.append(disk_root)
            raise PermissionError('no such luck')

        with fixtures.MonkeyPatch(
            'nova_diskplacer.disks.discover.discover', fail
        ):
            self.wait_for(lambda: len(looks) > 2)
            self.assertEqual(1, self.logged('no such luck'))
        self.assertIs(look, discover.discover)
        self.wait_for(lambda: self.logged('The disks can be read again'))
        self.assertEqual((100, 0), self.placement.inventory(disk))

    def test_a_report_that_cannot_be_sent(self):
        self.placement.start_compute()
        disk = self.disks.add()
        send = reports.send_report

        def fail(transport, report):
            raise oslo_messaging.MessageDeliveryFailure('nobody is there')

        with fixtures.MonkeyPatch('nova_diskplacer.reports.send_report', fail):
            self.start_agent()
            self.wait_for(lambda: self.logged('nobody is there'))
            self.wait_for(lambda: self.placement.inventory(disk) == (100, 0))
        self.assertIs(send, reports.send_report)
        self.wait_for(lambda: self.health(disk) == 'ok')
        self.wait_for(lambda: self.logged('Reports are sent again'))
        self.assertEqual(1, self.logged('Reports are sent again'))
        self.assertEqual(1, self.logged('nobody is there'))


class RequestTest(base.AgentTestCase):
    """What is asked of an agent that seldom reports of itself."""

    report_interval = 600

    def settle(self):
        """Start an agent with a disk, and let its first reports pass."""
        self.root = self.placement.start_compute()
        self.disk = self.disks.add()
        self.start_agent()
        self.wait_for(lambda: self.health(self.disk) == 'ok')
        with contextlib.suppress(queue.Empty):
            while True:
                self.reports.arrived.get(timeout=4)

    def test_answers_a_call_for_reports(self):
        self.settle()
        self.assertRaises(queue.Empty, self.reports.arrived.get, timeout=2)
        reports.request_reports(self.transport)
        self.reports.arrived.get(timeout=base.PATIENCE)

    def test_answers_many_calls_at_once(self):
        self.settle()
        for _ in range(20):
            reports.request_reports(self.transport)
        self.reports.arrived.get(timeout=base.PATIENCE)
        # some calls may have come while it answered
        with contextlib.suppress(queue.Empty):
            self.reports.arrived.get(timeout=3)
        self.assertRaises(queue.Empty, self.reports.arrived.get, timeout=1)

    def test_looks_at_placement_for_who_knows_of_a_claim(self):
        self.settle()
        asked = len(self.placement.requests)
        for _ in range(20):
            reports.renew_report(self.transport, self.conf.host)
        report = self.reports.arrived.get(timeout=base.PATIENCE)
        self.assertEqual(0, report['disks'][0]['used_gb'])
        self.placement.claim(
            str(uuid.uuid4()), {self.disk: {placement_client.GB: 30}}
        )
        reports.renew_report(self.transport, self.conf.host)
        self.wait_for(lambda: self.reports.disk(self.disk)['used_gb'] == 30)
        # as many as three rounds, and what they found
        self.assertLess(len(self.placement.requests) - asked, 3 * 2 + 10)

    def test_answers_while_placement_is_away(self):
        self.settle()
        self.placement.away = True
        self.disks.hold(self.disk, None)
        reports.request_reports(self.transport)
        report = self.reports.arrived.get(timeout=base.PATIENCE)
        self.assertEqual(1, len(report['disks'][0]['vdisks']))

    def test_a_change_is_reported_at_once(self):
        self.settle()
        self.disks.hold(self.disk, None)
        self.wait_for(lambda: self.reports.disk(self.disk)['vdisks'])
        self.assertEqual(10, self.reports.disk(self.disk)['reserved_gb'])

    def test_the_map_hears_it(self):
        self.settle()
        heard = map_.collect_reports(
            self.transport, {self.root}, base.PATIENCE
        )
        self.assertEqual({self.root}, heard.keys())

    def test_the_map_waits_no_longer_than_told(self):
        self.settle()
        other = str(uuid.uuid4())

        def ask():
            start = time.monotonic()
            heard = map_.collect_reports(self.transport, {self.root, other}, 2)
            self.assertLess(time.monotonic() - start, 60)
            # who does not answer in time is not heard either
            return heard.keys() == {self.root}

        self.wait_for(ask)
