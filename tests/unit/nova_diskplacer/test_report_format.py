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

import copy

from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer import report_format
from nova_diskplacer.scheduler import host_disk_cache

REPORT = {
    'version': 1,
    'host': 'compute-1',
    'compute_node': 'compute-1.example.org',
    'provider': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0001',
    'disks': [
        {
            'uuid': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0002',
            'medium': 'hdd',
            'model': 'ST8000',
            'numa_node': 1,
            'total_gb': 100,
            'reserved_gb': 5,
            'used_gb': 30,
            'total_mbps': 150,
            'used_mbps': 0,
            'health': 'ok',
            'vdisks': [
                {'volume_id': 'v1', 'server_id': 's1', 'size_gb': 30},
                {
                    'volume_id': 'p',
                    'server_id': None,
                    'size_gb': 5,
                    'is_snapshot': True,
                },
            ],
        },
        {
            'uuid': '7f4a2a3e-5c2e-4c1b-8d0e-1c1f9b7a0003',
            'medium': '',
            'model': '',
            'numa_node': None,
            'total_gb': 100,
            'reserved_gb': 100,
            'used_gb': 0,
            'total_mbps': 150,
            'used_mbps': 0,
            'health': 'missing',
            'vdisks': [],
        },
    ],
}


def changed(*path_and_value):
    """Return ``REPORT`` with one value replaced."""
    *path, key, value = path_and_value
    report = copy.deepcopy(REPORT)
    place = report
    for step in path:
        place = place[step]
    place[key] = value
    return report


def without(*path):
    """Return ``REPORT`` with one key removed."""
    report = changed(*path, None)
    place = report
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return report


class CheckTest(base.BaseTestCase):
    def refuse(self, report, *words):
        error = self.assertRaises(ValueError, report_format.check, report)
        for word in words:
            self.assertIn(word, str(error))

    def test_good(self):
        self.assertEqual(REPORT, report_format.check(copy.deepcopy(REPORT)))

    def test_what_a_later_version_adds_is_no_error(self):
        report_format.check(changed('disks', 0, 'temperature', 40))

    def test_the_cache_mode_may_be_absent_or_unknown(self):
        for mode in ('none', 'writeback', None):
            report = {**REPORT, 'cache_mode': mode}
            self.assertEqual(report, report_format.check(report))
        self.refuse({**REPORT, 'cache_mode': 7}, 'cache_mode: 7 is not of')

    def test_the_pressure_may_be_absent(self):
        for pressure in (0, 7, 100):
            report = changed('disks', 0, 'pressure', pressure)
            self.assertEqual(
                report, report_format.check(copy.deepcopy(report))
            )
        for pressure in (-1, 101, 1 << 40, 0.5, '7', True, None):
            self.refuse(
                changed('disks', 1, 'pressure', pressure),
                f'disks.1.pressure={pressure!r} is not',
                'an integer from 0 to 100',
            )

    def test_no_report(self):
        for report in (None, [], 'report', 7):
            self.refuse(report, f'{report!r} is not of type', 'object')

    def test_versions(self):
        for version in (1, 2):
            report_format.check(changed('version', version))
        self.refuse(changed('version', 3), 'version=3 is not one of: 1, 2')

    def test_the_digest_is_that_of_all_contents(self):
        report = report_format.with_digest(REPORT)
        self.assertEqual(report, report_format.check(copy.deepcopy(report)))
        self.assertEqual(
            report, report_format.with_digest(copy.deepcopy(REPORT))
        )
        for other in (
            changed('cache_mode', 'none'),
            changed('disks', 0, 'used_gb', 31),
            changed('disks', 0, 'vdisks', []),
        ):
            self.assertNotEqual(
                report['digest'], report_format.with_digest(other)['digest']
            )

    def test_a_heartbeat(self):
        report = report_format.with_digest(REPORT)
        heartbeat = report_format.heartbeat(report)
        self.assertEqual(
            {
                'version': 1,
                'host': 'compute-1',
                'provider': REPORT['provider'],
                'digest': report['digest'],
            },
            report_format.check_heartbeat(heartbeat),
        )
        self.assertTrue(report_format.is_heartbeat(heartbeat))
        self.assertFalse(report_format.is_heartbeat(report))
        for bad, word in (
            ({**heartbeat, 'version': 3}, 'version=3'),
            ({**heartbeat, 'digest': 7}, 'digest'),
            ({**heartbeat, 'provider': None}, 'provider'),
        ):
            error = self.assertRaises(
                ValueError, report_format.check_heartbeat, bad
            )
            self.assertIn(word, str(error))

    def test_each_key_is_needed(self):
        for key in REPORT:
            self.refuse(without(key), f'{key!r} is a required property')
        for path in (
            *(('disks', 0, key) for key in REPORT['disks'][0]),
            *(
                ('disks', 0, 'vdisks', 0, key)
                for key in REPORT['disks'][0]['vdisks'][0]
            ),
        ):
            where = '.'.join(map(str, path[:-1]))
            self.refuse(without(*path), f'{where} has no {path[-1]!r}')

    def test_each_value_has_its_type(self):
        for path in (
            *((key,) for key in REPORT),
            *(('disks', 0, key) for key in REPORT['disks'][0]),
            *(
                ('disks', 0, 'vdisks', 0, key)
                for key in REPORT['disks'][0]['vdisks'][0]
            ),
        ):
            for value in ({}, 1.5, True):
                where = '.'.join(map(str, path))
                self.refuse(changed(*path, value), where, 'is not')

    def test_disks_and_vdisks_are_dictionaries(self):
        self.refuse(changed('disks', 0, None), 'disks.0: None is not of type')
        self.refuse(
            changed('disks', 0, 'vdisks', 0, 'v1'),
            "disks.0.vdisks.0='v1' is not a dictionary",
        )
        self.refuse(
            changed('disks', 0, 'vdisks', 1, 'is_snapshot', 'yes'),
            "disks.0.vdisks.1.is_snapshot='yes' is not true or false",
        )

    def test_figures_are_not_negative_and_fit_an_array(self):
        for path in (
            *((key,) for key in host_disk_cache._AMOUNTS),
            ('numa_node',),
            ('vdisks', 0, 'size_gb'),
        ):
            report_format.check(
                changed('disks', 0, *path, constants.MAX_FIGURE)
            )
            for value in (-1, constants.MAX_FIGURE + 1, 1 << 63):
                self.refuse(
                    changed('disks', 0, *path, value), path[-1], str(value)
                )

    def test_medium(self):
        self.refuse(changed('disks', 0, 'medium', 'tape'), 'tape', 'hdd, ssd')

    def test_medium_of_a_disk_that_is_not_there(self):
        report_format.check(changed('disks', 1, 'medium', ''))
        self.refuse(changed('disks', 0, 'medium', ''), 'hdd, ssd')

    def test_health(self):
        self.refuse(changed('disks', 0, 'health', 'tired'), 'tired', 'missing')

    def test_one_disk_twice(self):
        self.refuse(
            changed('disks', 1, REPORT['disks'][0]),
            'twice',
            REPORT['disks'][0]['uuid'],
        )
