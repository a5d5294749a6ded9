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

import json

from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.monitor import status
from tests.unit.nova_diskplacer.monitor import example


class SnapshotTest(base.BaseTestCase):
    def test_rates_are_per_second(self):
        pairs = example.status_provider()().pairs
        self.assertEqual([100e6, 1e6, 0, 0], pairs.read_bytes)
        self.assertEqual([50e6, 0.5e6, 0, 0], pairs.write_bytes)
        self.assertEqual([1000, 10, 0, 0], pairs.reads)

    def test_each_pair_has_what_is_known_of_it(self):
        pairs = example.status_provider()().pairs
        self.assertEqual(
            [server for server, _ in example.PAIRS], pairs.servers
        )
        self.assertEqual([disk for _, disk in example.PAIRS], pairs.disks)
        self.assertEqual(['alpha', 'beta', 'beta', ''], pairs.projects)
        self.assertEqual([1.0, 9.0, 10.0, 10.0], pairs.classes)
        self.assertEqual([5, 94, None, None], pairs.weights)
        self.assertEqual(['', 'libvirt refuses', '', ''], pairs.errors)
        self.assertEqual([True, False, False, False], pairs.seekers)
        self.assertEqual([False, False, False, True], pairs.exempt)
        self.assertEqual([False, False, True, True], pairs.idle)

    def test_disks_have_their_controller_or_why_there_is_none(self):
        state = example.status_provider()()
        self.assertEqual(
            [
                ('sda', 'bfq', ''),
                ('nvme0n1', '', 'io.cost has no model of it'),
            ],
            [
                (disk.device, disk.controller, disk.error)
                for disk in state.disks
            ],
        )
        self.assertEqual({example.LOST: 'it has no device'}, state.unwatched)

    def test_nothing_has_to_be_decided(self):
        pairs = example.status_provider(decision=None)().pairs
        for column in (
            pairs.classes,
            pairs.used_bytes,
            pairs.weights,
        ):
            self.assertEqual([None] * 4, column)
        self.assertEqual([False] * 4, pairs.exempt)

    def test_a_consumer_that_has_just_left_is_known_by_its_key(self):
        pairs = example.status_provider(
            example.make_sample(consumers={})
        )().pairs
        self.assertEqual(example.LONG, pairs.servers[0])
        self.assertEqual('', pairs.domains[0])

    def test_history(self):
        known = example.status_provider()().pairs.history
        self.assertEqual([2, 0, 0, 0], known['active_intervals'])
        self.assertEqual([50e6, 0, 0, 0], known['read_bytes_minimum'])
        self.assertEqual([100e6, 0, 0, 0], known['read_bytes_maximum'])
        self.assertEqual([75e6, 0, 0, 0], known['read_bytes_mean'])
        self.assertEqual([25e6, 0, 0, 0], known['read_bytes_deviation'])
        self.assertEqual([37.5e6, 0, 0, 0], known['write_bytes_mean'])
        self.assertEqual(5, known['idle_seconds'][1])

    def test_what_guests_tell(self):
        told = example.status_provider()()
        (guest,) = told.guests
        self.assertEqual(example.SMALL, guest['server'])
        self.assertEqual(0.02, guest['read_seconds'])
        self.assertEqual([0, 0, 1e6, 0], told.pairs.unseen_bytes)
        (resources,) = told.resources
        self.assertEqual(
            (example.SMALL, 'beta', 12.5),
            tuple(resources[n] for n in ('server', 'project', 'cpu_seconds')),
        )
        silent = example.status_provider(guests=None)()
        self.assertEqual(([], []), (silent.guests, silent.resources))
        self.assertEqual([0] * 4, silent.pairs.unseen_bytes)

    def test_domains_that_are_not_of_nova_are_left_out(self):
        sample = example.make_sample(consumers={})
        self.assertEqual([], example.status_provider(sample)().resources)

    def test_every_column_has_a_value_for_each_pair(self):
        columns = dict(vars(example.status_provider()().pairs))
        columns.update(columns.pop('history'))
        self.assertEqual({4}, {len(column) for column in columns.values()})


class JsonTest(base.BaseTestCase):
    def test_it_comes_back_as_it_was(self):
        state = example.status_provider()()
        self.assertEqual(state, status.from_json(status.to_json(state)))

    def test_before_the_first_round_there_is_none(self):
        self.assertIsNone(status.from_json(status.to_json(None)))

    def test_another_form_is_refused(self):
        good = json.loads(status.to_json(example.status_provider()()))
        for text in (
            '',
            '{',
            '[]',
            '{}',
            json.dumps({**good, 'version': 1}),
            json.dumps({**good, 'more': 1}),
            json.dumps({**good, 'pairs': {}}),
            json.dumps({**good, 'disks': [{}]}),
        ):
            error = self.assertRaises(
                exception.AgentError, status.from_json, text
            )
            self.assertIn('another version', str(error))
