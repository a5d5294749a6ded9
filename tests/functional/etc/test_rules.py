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

"""The alerting rules, as Prometheus itself evaluates them."""

import pathlib
import re
import subprocess

import fixtures
import yaml
from oslotest import base

TOP = pathlib.Path(__file__).parents[3]
RULES = TOP / 'etc/prometheus/diskplacer.rules.yml'

# Seconds between two samples, and of the evaluation.
STEP = 60
NOW = 3600

HOST = {'host': 'h', 'job': 'diskplacer', 'instance': 'h:9748'}
DISK = {**HOST, 'disk': 'd'}
SETTLING = {'vdisk': 'v', 'source': 's'}

# Samples that stay as they are, and that are the time.
STUCK = '0x60'
TIME = f'0+{STEP}x60'


def series(name, labels, values):
    inside = ','.join(f'{key}="{value}"' for key, value in labels.items())
    return {'series': f'{name}{{{inside}}}', 'values': values}


def host(name, values, **labels):
    return series(f'diskplacer_{name}', {**HOST, **labels}, values)


def disk(name, values, **labels):
    return series(f'diskplacer_disk_{name}', {**DISK, **labels}, values)


def fleet(name, values):
    labels = {'aggregate': '(all hosts)', 'flavor': 'wide'}
    return series(f'diskplacer_fleet_{name}', labels, values)


UP = series('up', {'job': 'diskplacer', 'instance': 'h:9748'}, '1x60')
DOWN = series('up', {'job': 'diskplacer', 'instance': 'h:9748'}, '1x50 0x10')

#: Series that let each alert fire, the labels that it has then, and series
#: that do not.
CASES = {
    'DiskplacerAgentDown': (
        [DOWN],
        {'job': 'diskplacer', 'instance': 'h:9748'},
        [UP],
    ),
    # the only series is of another job
    'DiskplacerAgentsAbsent': (
        [series('up', {'job': 'node', 'instance': 'h:9100'}, '1x60')],
        {'job': 'diskplacer'},
        [UP],
    ),
    **{
        alert: (
            [UP, host(name, STUCK)],
            HOST,
            [UP, host(name, TIME)],
        )
        for alert, name in (
            ('DiskplacerDisksUnchecked', 'last_disk_check_timestamp_seconds'),
            (
                'DiskplacerPlacementStale',
                'last_placement_update_timestamp_seconds',
            ),
            ('DiskplacerReportsStale', 'last_report_timestamp_seconds'),
        )
    },
    'DiskplacerAgentStuck': (
        [
            UP,
            host('last_round_timestamp_seconds', STUCK),
            host('last_disk_check_timestamp_seconds', TIME),
        ],
        HOST,
        [
            UP,
            host('last_round_timestamp_seconds', TIME),
            host('last_disk_check_timestamp_seconds', TIME),
        ],
    ),
    'DiskplacerPlacementErrors': (
        [UP, host('placement_errors_total', '0+1x60')],
        HOST,
        [UP, host('placement_errors_total', '100x60')],
    ),
    'DiskplacerWeightsNotDecided': (
        [
            UP,
            host('weights_decided', '0x60'),
            host('agent_info', '1x60', mode='on'),
        ],
        HOST,
        [
            UP,
            host('weights_decided', '0x60'),
            host('agent_info', '1x60', mode='off'),
        ],
    ),
    'DiskplacerFlavorHardlyFits': (
        [UP, fleet('hosts', '2x120')],
        {'flavor': 'wide'},
        [UP, fleet('hosts', '3x120')],
    ),
    'DiskplacerDiskUnhealthy': (
        [
            UP,
            disk('health', '0x60', health='ok'),
            disk('health', '1x60', health='read-only'),
        ],
        {**DISK, 'health': 'read-only'},
        [
            UP,
            disk('health', '1x60', health='ok'),
            disk('health', '0x60', health='missing'),
        ],
    ),
    'DiskplacerDiskForeign': (
        [UP, disk('health', '1x60', health='foreign')],
        {**DISK, 'health': 'foreign'},
        [UP, disk('health', '0x60', health='foreign')],
    ),
    'DiskplacerDiskWarning': (
        [
            UP,
            disk('warnings', '1x60', kind='errors'),
            disk('warnings', '0x60', kind='queue'),
        ],
        {**DISK, 'kind': 'errors'},
        [UP, disk('warnings', '0x60', kind='errors')],
    ),
    'DiskplacerWeightsDoNothing': (
        [UP, disk('weights_error', '1x60')],
        DISK,
        [UP, disk('weights_error', '0x60')],
    ),
    'DiskplacerDiskUnderPressure': (
        [UP, disk('pressure_ratio', '0.95x60')],
        DISK,
        [UP, disk('pressure_ratio', '0.95x30 0.5x15 0.95x15')],
    ),
    'DiskplacerBindFailures': (
        [UP, host('bind_failures_total', '0x55 1x5', reason='disk')],
        {**HOST, 'reason': 'disk'},
        [UP, host('bind_failures_total', '0x20 1x40', reason='disk')],
    ),
    'DiskplacerVolumesRefused': (
        [UP, host('bind_failures_total', '0+1x60', reason='refused')],
        {**HOST, 'reason': 'refused'},
        [UP, host('bind_failures_total', '0x55 2x5', reason='refused')],
    ),
    'DiskplacerSettlingAway': (
        [UP, host('settling_state', '0x20 1x40', **SETTLING, state='away')],
        {**HOST, **SETTLING, 'state': 'away'},
        [UP, host('settling_state', '1x60', **SETTLING, state='copying')],
    ),
    'DiskplacerSettlingStalled': (
        [UP, host('settling_stalled_seconds', TIME, **SETTLING)],
        {**HOST, **SETTLING},
        [UP, host('settling_stalled_seconds', '600x60', **SETTLING)],
    ),
    'DiskplacerClaimsPending': (
        [UP, disk('pending_since_timestamp_seconds', '60x60')],
        DISK,
        # a server that boots, one after the other
        [UP, disk('pending_since_timestamp_seconds', '0+60x60')],
    ),
    'DiskplacerCapacityLow': (
        [
            UP,
            disk('free_bytes', '5x60'),
            disk('capacity_bytes', '100x60'),
        ],
        {'job': 'diskplacer'},
        [
            UP,
            disk('free_bytes', '5x60'),
            disk('capacity_bytes', '100x60'),
            disk('free_bytes', '90x60', disk='other'),
            disk('capacity_bytes', '100x60', disk='other'),
        ],
    ),
}

#: More of them, of alerts with several causes.
MORE_CASES = [
    # an agent that has never measured an interval, and one that just started
    (
        'DiskplacerAgentStuck',
        [UP, host('last_disk_check_timestamp_seconds', TIME)],
        HOST,
        [
            UP,
            host(
                'last_disk_check_timestamp_seconds', f'_x58 {NOW - STEP}+60x1'
            ),
        ],
    ),
    # another alert tells that the disks are not checked either
    (
        'DiskplacerAgentStuck',
        [
            UP,
            host('last_disk_check_timestamp_seconds', STUCK),
            host('last_round_timestamp_seconds', STUCK),
        ],
        HOST,
        [UP, host('last_disk_check_timestamp_seconds', STUCK)],
    ),
]


class RulesTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.rules = {
            rule['alert']: rule
            for group in yaml.safe_load(RULES.read_text())['groups']
            for rule in group['rules']
        }

    def promtool(self, *arguments):
        done = subprocess.run(  # noqa: S603
            ['promtool', *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def expected(self, alert, labels):
        """Return the alert with its annotations filled in."""
        rule = self.rules[alert]
        return {
            'exp_labels': {**labels, **rule['labels']},
            'exp_annotations': {
                name: re.sub(
                    r'{{ \$labels\.(\w+) }}', lambda m: labels[m[1]], text
                )
                for name, text in rule['annotations'].items()
            },
        }

    def test_prometheus_takes_them(self):
        output = self.promtool('check', 'rules', str(RULES))
        self.assertIn(f'SUCCESS: {len(self.rules)} rules found', output)

    def test_every_alert_fires_and_stays_silent(self):
        self.assertEqual(set(CASES), set(self.rules))
        tests = [
            {
                'interval': f'{STEP}s',
                'input_series': given,
                'alert_rule_test': [
                    {
                        'eval_time': f'{NOW}s',
                        'alertname': alert,
                        'exp_alerts': expected,
                    }
                ],
            }
            for alert, bad, labels, good in (
                *((alert, *case) for alert, case in CASES.items()),
                *MORE_CASES,
            )
            for given, expected in (
                (bad, [self.expected(alert, labels)]),
                (good, []),
            )
        ]
        path = self.useFixture(fixtures.TempDir()).join('test.yml')
        pathlib.Path(path).write_text(
            yaml.safe_dump(
                {
                    'rule_files': [str(RULES)],
                    'evaluation_interval': f'{STEP}s',
                    'tests': tests,
                }
            )
        )
        self.promtool('test', 'rules', path)
