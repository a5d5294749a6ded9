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


"""The outcome of a storm."""

import collections
import json

import testtools

from tools.storm import load
from tools.storm import report
from tools.storm.invariants import Violation
from tools.storm.plan import Done
from tools.storm.plan import Fault

BYTES = Violation('bytes', 'volume-v', 'block 1 is wrong')
LEAK = Violation('leaked-claim', 'm', 'claims 1 GiB', 'nova', 'its migration')


def outcome(*violations):
    operations = collections.defaultdict(collections.Counter)
    operations['boot'] += {load.OK: 3, load.FAILED: 1}
    operations['delete-volume'] += {load.OK: 2}
    kill = Fault('kill', 'cinder-volume@one', 3, 2)
    faults = [Done(kill, 10, seconds) for seconds in (9.0, 3.0, 4.0)]
    faults.append(Done(Fault('fill', 'one', 3, 2, (1,)), 20))
    return report.Outcome(
        seed=7,
        seconds=960,
        command=['--seed', '7'],
        operations=operations,
        failures=['boot: failed'],
        faults=faults,
        skipped=[],
        commands=[],
        violations=list(violations),
        vdisks=12,
        repairs=collections.Counter(orphan=2),
        growth={'diskplacer-agent@one': (100.0, 101.25)},
    )


class ReportTest(testtools.TestCase):
    def test_form_of_benchmarks(self):
        content = json.loads(json.dumps(report.content(outcome())))
        self.assertEqual('storm', content['benchmark'])
        self.assertEqual('tools/storm.sh --seed 7', content['command'])
        self.assertEqual(7, content['seed'])
        self.assertEqual(set(report.MEASURED), set(content['code']))
        for value in content['figures'].values():
            self.assertIsInstance(value, int | float | None)

    def test_figures(self):
        figures = report.figures(outcome())
        for name, value in {
            'operations': 6,
            'operations_ok': 5,
            'operations_failed': 1,
            'boot': 4,
            'boot_ok': 3,
            'delete_volume_ok': 2,
            'faults': 4,
            'faults_kill': 3,
            'faults_fill': 1,
            'vdisks_compared': 12,
            'repairs': 2,
            'violations': 0,
            'kill_cinder_volume_s': 4,
            'kill_cinder_volume_s_min': 3,
            'kill_cinder_volume_s_max': 9,
            'kill_rabbitmq_s': None,
            'diskplacer_agent_one_growth_mib': 1.2,
        }.items():
            self.assertEqual(value, figures[name], name)

    def test_violations_of_others_are_told_apart(self):
        found = outcome(BYTES, LEAK)
        self.assertEqual([BYTES], found.own)
        content = report.content(found)
        self.assertEqual(1, content['figures']['violations'])
        self.assertEqual(1, content['figures']['bytes_wrong'])
        self.assertEqual(1, content['figures']['violations_apart'])
        self.assertEqual(['m'], [one['subject'] for one in content['apart']])
        self.assertFalse(content['goals'][0]['met'])
        self.assertTrue(report.content(outcome(LEAK))['goals'][0]['met'])

    def test_words(self):
        text = '\n'.join(report.lines(outcome(BYTES, LEAK)))
        for words in (
            'boot             3/4 1 failed',
            'kill cinder-volume       3, recovered in 4 s, at most 9 s',
            'bytes: volume-v block 1 is wrong',
            'leaked-claim: m claims 1 GiB (its migration)',
            '1 violations, seed 7',
        ):
            self.assertIn(words, text)
