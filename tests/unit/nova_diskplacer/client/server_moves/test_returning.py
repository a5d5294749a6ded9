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

"""Which servers of a lost host come back."""

import dataclasses
import types
import unittest
from unittest import mock

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import returning
from nova_diskplacer.client.server_moves.nova import Busy
from nova_diskplacer.client.server_moves.nova import NotLost

REQUEST = flavor.VDiskRequest(1, 100, on_host_loss=flavor.BLANK)
VOLUME = facts.Volume('v', 100, 'live', 'vdisk')
SERVER = facts.Server(
    's', 'web', 'lost', 'ACTIVE', 'active', request=REQUEST, volumes=(VOLUME,)
)


class WhyStaysTest(unittest.TestCase):
    def test_servers(self):
        kept = dataclasses.replace(VOLUME, host='lost')
        no_blank = flavor.VDiskRequest(1, 100)
        for fields, word in (
            ({}, ''),
            ({'vm_state': 'stopped'}, ''),
            ({'vm_state': 'error'}, ''),
            ({'request': None, 'volumes': ()}, 'openstack server evacuate s'),
            (
                {'request': None, 'volumes': (VOLUME, kept)},
                'without diskplacer:on_host_loss=blank',
            ),
            (
                {'request': no_blank, 'volumes': (kept,)},
                'without diskplacer:on_host_loss=blank',
            ),
            (
                {'request': no_blank},
                'data on live, from where it had come: openstack server '
                'evacuate s',
            ),
            ({'request': no_blank, 'volumes': ()}, 'without diskplacer:'),
            ({'flavor_error': 'bad'}, 'has a flavor that is wrong: bad'),
            ({'is_locked': True}, 'openstack server unlock s'),
            ({'task': 'rebuilding'}, 'has a task of Nova: rebuilding'),
            ({'vm_state': 'paused'}, 'is in state paused'),
            ({'volumes': (VOLUME, kept)}, 'volume v, whose data is not given'),
        ):
            why = returning.why_stays(
                dataclasses.replace(SERVER, **fields), 'lost'
            )
            self.assertEqual(bool(word), bool(why), why)
            self.assertIn(word, why)


class ReturningTest(unittest.TestCase):
    """Nova with one server."""

    def setUp(self):
        super().setUp()
        self.now = SERVER
        self.told = []
        self.nova = mock.Mock(host='lost')
        self.nova.servers.return_value = ['s']
        self.nova.evacuate.return_value = 'request'
        self.nova.failure.return_value = None
        self.nova.server.side_effect = lambda id_: self.now and id_
        self.reader = types.SimpleNamespace(
            with_volumes=lambda item: SERVER,
            without_volumes=lambda item: self.now,
        )
        self.run_ = returning.Returning(
            self.nova, self.reader, 1, self.told.append
        ).run
        patch = mock.patch.object(returning, '_INTERVAL', 0.0)
        patch.start()
        self.addCleanup(patch.stop)

    def have_servers(self, *ids):
        """Have Nova evacuate servers at once; returns what does it."""
        servers = {id_: dataclasses.replace(SERVER, id=id_) for id_ in ids}
        self.nova.servers.return_value = [*servers]
        self.nova.server.side_effect = servers.get
        self.reader.with_volumes = servers.get
        self.reader.without_volumes = lambda item: item

        def evacuate(id_):
            servers[id_] = dataclasses.replace(servers[id_], host='live')
            return 'request'

        self.nova.evacuate.side_effect = evacuate
        return evacuate

    def outcome(self, timeout=60.0):
        (outcome,) = self.run_(timeout)
        return outcome.result, outcome.reason

    def test_it_is_deleted_meanwhile(self):
        self.now = None
        self.assertEqual(
            (returning.DELETED, 'was deleted meanwhile'), self.outcome()
        )
        self.nova.evacuate.assert_not_called()
        self.nova.server.side_effect = [SERVER, None]
        self.now = SERVER
        self.assertEqual(
            (returning.DELETED, 'was deleted meanwhile'), self.outcome()
        )

    def test_another_operator_is_faster(self):
        for fields in ({'task': 'rebuilding'}, {'host': 'live'}):
            self.now = dataclasses.replace(SERVER, **fields)
            self.assertEqual(
                (
                    returning.UNDER_WAY,
                    'somebody else evacuates it; repeat this',
                ),
                self.outcome(),
            )
        self.nova.evacuate.assert_not_called()
        self.now = SERVER
        self.nova.evacuate.side_effect = Busy('Nova refuses: task')
        self.assertEqual(
            (returning.UNDER_WAY, 'Nova refuses: task; repeat this'),
            self.outcome(),
        )
        self.nova.evacuate.side_effect = exception.DiskPlacerError('no')
        self.assertEqual((returning.STAYS, 'no; repeat this'), self.outcome())

    def test_the_host_comes_back_meanwhile(self):
        self.nova.check_is_lost.side_effect = NotLost('up')
        self.assertEqual((returning.STAYS, 'up'), self.outcome())
        self.nova.evacuate.assert_not_called()

    def test_nova_does_not_tell_why(self):
        result, reason = self.outcome()
        self.assertEqual(returning.STAYS, result)
        self.assertIn('Nova tells no reason', reason)

    def test_it_is_back_just_when_it_is_looked_at(self):
        """Nova ends the task, sets the host, and then ends the action."""

        def end(*args):
            self.now = dataclasses.replace(SERVER, host='live')
            return ''

        self.nova.failure.side_effect = end
        self.assertEqual((returning.RETURNED, ''), self.outcome())

    def test_an_api_is_away(self):
        """It is asked again, for a while; what was done is told."""
        away = exception.DiskPlacerError('away')
        self.nova.server.side_effect = [SERVER, away, away, None]
        self.assertEqual(
            (returning.DELETED, 'was deleted meanwhile'), self.outcome()
        )
        self.assertEqual(2, self.told.count('away; asking again'))
        self.nova.server.side_effect = [SERVER] + [away] * 99
        self.assertEqual(
            (returning.UNDER_WAY, 'Nova goes on; repeat this'), self.outcome()
        )

    def test_an_api_is_away_before_servers_are_begun(self):
        """All that are to come stay due, and come back when it answers."""
        away = exception.DiskPlacerError('away')
        self.have_servers('1', '2', '3')
        self.nova.check_is_lost.side_effect = [None, away, away, None, None]
        self.assertEqual(
            [returning.RETURNED] * 3, [one.result for one in self.run_(60.0)]
        )
        self.assertEqual(2, self.told.count('away; asking again'))

    def test_an_api_is_away_for_good_before_servers_are_begun(self):
        away = exception.DiskPlacerError('away')
        self.nova.check_is_lost.side_effect = away
        self.assertEqual((returning.STAYS, 'away'), self.outcome())
        self.assertEqual(20, self.nova.check_is_lost.call_count)
        self.nova.evacuate.assert_not_called()

    def test_an_evacuation_without_an_answer(self):
        """It is asked for once; the next one when Nova may answer again."""
        evacuate = self.have_servers('1', '2')
        asked = []

        def begin(id_):
            asked.append(id_)
            if id_ == '1':
                raise exception.DiskPlacerError('away')
            return evacuate(id_)

        self.nova.evacuate.side_effect = begin
        with mock.patch.object(
            returning.time, 'sleep', lambda _: asked.append('sleep')
        ):
            outcomes = self.run_(60.0)
        self.assertEqual(['1', 'sleep', '2', 'sleep'], asked)
        self.assertEqual(
            [
                (returning.STAYS, 'away; repeat this'),
                (returning.RETURNED, ''),
            ],
            [(one.result, one.reason) for one in outcomes],
        )

    def test_time_is_over(self):
        busy = dataclasses.replace(SERVER, task='rebuilding')

        def evacuate(*args):
            self.now = busy
            return 'request'

        self.nova.evacuate.side_effect = evacuate
        self.assertEqual(
            (returning.UNDER_WAY, 'Nova goes on; repeat this'),
            self.outcome(0.05),
        )
        self.assertEqual(['Server web (s) is evacuated'], self.told)
