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

import itertools
import json
import os
import stat
import threading

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import smart
from tests import configured

# as smartctl has them, with what is not looked at left out
ATA = {
    'smartctl': {'exit_status': 216},
    'serial_number': 'MSK1',
    'smart_status': {'passed': False},
    'ata_smart_attributes': {
        'table': [
            {'id': 1, 'name': 'Raw_Read_Error_Rate', 'raw': {'value': 77}},
            {'id': 5, 'name': 'Reallocated_Sector_Ct', 'raw': {'value': 1975}},
            {'id': 188, 'name': 'Timeout', 'raw': {'value': 0x300000002}},
        ]
    },
    'temperature': {'current': 25},
}
NVME = {
    'smartctl': {'exit_status': 0},
    'serial_number': 'S46',
    'smart_status': {'passed': True, 'nvme': {'value': 0}},
    'nvme_smart_health_information_log': {
        'critical_warning': 0,
        'temperature': 35,
        'media_errors': 7,
    },
    'temperature': {'current': 35},
}
SAS = {
    'smartctl': {'exit_status': 0},
    'serial_number': 'Z1Z',
    'smart_status': {'passed': True},
    'temperature': {'current': 34, 'drive_trip': 68},
    'scsi_grown_defect_list': 56,
    'scsi_error_counter_log': {
        'read': {'total_errors_corrected': 300, 'total_uncorrected_errors': 3},
        'write': {'total_errors_corrected': 0, 'total_uncorrected_errors': 0},
    },
}
REFUSED = {
    'smartctl': {
        'exit_status': 2,
        'messages': [
            {
                'string': 'Smartctl open device: /dev/sda failed: '
                'Permission denied',
                'severity': 'error',
            }
        ],
    }
}


class FakeSmartctl(fixtures.Fixture):
    """A smartctl that says what it is told to say."""

    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.path))
        self.says(NVME)

    def says(self, fields, status=0):
        text = fields if isinstance(fields, str) else json.dumps(fields)
        with open(f'{self.path}/smartctl', 'w') as stream:
            stream.write(f"#!/bin/sh\nprintf '%s' '{text}'\nexit {status}\n")
        os.chmod(f'{self.path}/smartctl', stat.S_IRWXU)


class SmartTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.smartctl = self.useFixture(FakeSmartctl())

    def test_ata(self):
        self.smartctl.says(ATA, 216)
        self.assertEqual(
            smart.Report(
                'MSK1',
                False,
                25,
                {
                    'Reallocated_Sector_Ct (SMART 5)': 1975,
                    'Timeout (SMART 188)': 2,
                },
            ),
            smart.read('sda'),
        )

    def test_what_an_attribute_counts(self):
        for number, value, string, expected in (
            (5, 1975, '1975', 1975),
            # two more words in the upper bytes
            (5, 3 << 16 | 12, '12 (3 0)', 12),
            (197, 8, '8', 8),
            (197, 5 << 32 | 8, '0x000500000008', 8),
            (198, 1 << 40 | 2, '-', 2),
            (199, 1 << 33, str(1 << 33), 1 << 33),
            # three words, also with a model that smartctl does not know
            (188, 4295032833, '1 1 1', 1),
            (188, 4295032833, '4295032833', 1),
            (188, 5, '0 0 5', 5),
            (188, 2 << 32 | 3 << 16 | 4, '2 3 4', 4),
        ):
            raw = {'value': value, 'string': string}
            row = {'id': number, 'name': 'X', 'raw': raw}
            report = smart.parse({'ata_smart_attributes': {'table': [row]}})
            self.assertEqual({f'X (SMART {number})': expected}, report.errors)

    def test_nvme(self):
        self.assertEqual(
            smart.Report('S46', True, 35, {'media errors': 7}),
            smart.read('nvme0n1'),
        )

    def test_sas(self):
        self.smartctl.says(SAS)
        self.assertEqual(
            {
                'grown defects': 56,
                'uncorrected read errors': 3,
                'uncorrected write errors': 0,
            },
            smart.read('sda').errors,
        )

    def test_little_said(self):
        self.assertEqual(smart.Report('', True, None, {}), smart.parse({}))

    def test_nothing_said(self):
        """As of a SATA disk without CAP_SYS_RAWIO."""
        device = {'name': '/dev/sda', 'type': 'scsi', 'protocol': 'SCSI'}
        self.smartctl.says({'smartctl': {'exit_status': 0}, 'device': device})
        error = self.assertRaises(exception.DiskError, smart.read, 'sda')
        self.assertIn('for SATA disks CAP_SYS_RAWIO', str(error))

    def test_asleep(self):
        self.smartctl.says({'smartctl': {'exit_status': 2}}, 2)
        self.assertIsNone(smart.read('sda'))

    def test_refused(self):
        self.smartctl.says(REFUSED, 2)
        error = self.assertRaises(exception.DiskError, smart.read, 'sda')
        self.assertIn('SMART of sda cannot be read', str(error))
        self.assertIn('Permission denied', str(error))

    def test_too_old(self):
        self.smartctl.says('=======> UNRECOGNIZED OPTION: json', 1)
        error = self.assertRaises(exception.DiskError, smart.read, 'sda')
        self.assertIn('smartctl 7.0 or newer is needed', str(error))

    def test_not_installed(self):
        os.unlink(f'{self.smartctl.path}/smartctl')
        error = self.assertRaises(exception.DiskError, smart.read, 'sda')
        self.assertIn('smartctl: No such file', str(error))

    def test_kernel_counter(self):
        sys = self.useFixture(fixtures.TempDir()).path
        self.assertEqual({}, smart.read_kernel_counter('sda', sys).errors)
        os.makedirs(f'{sys}/class/block/sda/device')
        with open(f'{sys}/class/block/sda/device/ioerr_cnt', 'w') as stream:
            stream.write('0x1f\n')
        self.assertEqual(
            {'failed requests': 31},
            smart.read_kernel_counter('sda', sys).errors,
        )


class HealthTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.smartctl = self.useFixture(FakeSmartctl())
        self.conf = self.useFixture(configured.Options()).conf
        self.devices = {
            uuid: Device(uuid, 'none', '9:9', rotational=False)
            for uuid in ('one', 'two')
        }
        self.health = disk_health.HealthMonitor(self.conf)

    def poll(self, **changes):
        log = NVME['nvme_smart_health_information_log']
        fields = NVME | {
            'temperature': {'current': changes.get('degrees', 35)},
            'smart_status': {'passed': changes.get('passed', True)},
            'serial_number': changes.get('serial', 'S46'),
            'nvme_smart_health_information_log': log
            | {'media_errors': changes.get('errors', 7)},
        }
        self.smartctl.says(fields)
        self.health.poll(self.devices)
        return {
            uuid: self.health.warnings.for_disk(uuid)
            for uuid in ('one', 'two')
            if self.health.warnings.for_disk(uuid)
        }

    def temperatures(self):
        return [self.health.temperature(uuid) for uuid in ('one', 'two')]

    def test_well(self):
        self.assertEqual({}, self.poll())
        self.assertEqual([35, 35], self.temperatures())
        self.assertEqual('', self.log.output)

    def test_resting(self):
        self.poll(degrees=70)
        self.smartctl.says(REFUSED, 2)
        self.health.poll(self.devices, {'one'})
        self.assertEqual([70, None], self.temperatures())
        self.assertEqual(1, self.log.output.count('cannot be read'))
        self.assertEqual(
            ['temperature'], [*self.health.warnings.for_disk('one')]
        )

    def test_one_that_hangs(self):
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.monitor.smart.TIMEOUT', 0.5)
        )
        answers = threading.Event()
        self.addCleanup(answers.set)
        asked = []

        def read(name):
            asked.append(name)
            if name == 'hanging':
                answers.wait()
            return smart.Report(name, True, 40, {})

        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.monitor.smart.read', read)
        )
        self.devices['one'] = Device('one', 'hanging', '8:0', True)
        for _ in range(2):
            self.health.poll(self.devices)
            self.assertEqual(40, self.health.temperature('two'))
        self.assertIsNone(self.health.temperature('one'))
        self.assertEqual(1, asked.count('hanging'))
        self.assertEqual(
            1, self.log.output.count('SMART of hanging: no answer')
        )
        answers.set()
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.monitor.smart.TIMEOUT', 60)
        )
        self.health.poll(self.devices)
        self.assertEqual([40, 40], self.temperatures())

    def test_hot(self):
        for degrees, warns in ((59, 0), (60, 1), (58, 1), (63, 1), (56, 0)):
            warnings = self.poll(degrees=degrees).get('one', ())
            self.assertEqual(warns, len(warnings), degrees)
        self.assertIn(
            'the temperature of none is 60 °C; the threshold is '
            '[diskplacer_monitor] warn_temperature=60',
            self.log.output,
        )
        self.assertEqual(2, self.log.output.count('°C'))
        self.assertEqual(
            2, self.log.output.count('warning of temperature has ended')
        )

    def test_never_hot(self):
        self.conf.set_override('warn_temperature', 0, 'diskplacer_monitor')
        self.health = disk_health.HealthMonitor(self.conf)
        self.assertEqual({}, self.poll(degrees=99))

    def test_failing(self):
        self.assertEqual(
            {
                'failing': 'none reports that it is failing; to move its '
                'vdisks to other disks: diskplacer-manage disk drain one'
            },
            self.poll(passed=False)['one'],
        )
        self.assertEqual({}, self.poll())

    def test_an_answer_that_fails_ends_no_warning(self):
        self.poll()
        self.poll(passed=False, errors=9)
        for _ in range(2):
            self.smartctl.says(REFUSED, 2)
            self.health.poll(self.devices)
            warnings = self.health.warnings.for_disk('one')
            self.assertEqual({'failing', 'errors'}, set(warnings))
        # and what grows meanwhile has grown
        warnings = self.poll(passed=False, errors=12)['one']
        self.assertIn('from 7 to 12', warnings['errors'])
        self.assertNotIn('has ended', self.log.output)
        self.assertEqual({'errors'}, set(self.poll(errors=12)['one']))

    def test_requests_fail_while_smart_does_not_answer(self):
        self.poll()
        self.smartctl.says(REFUSED, 2)
        counts = {'failed requests': 3}
        self.useFixture(
            fixtures.MockPatch(
                'nova_diskplacer.monitor.smart.read_kernel_counter',
                lambda name: smart.Report('', True, None, dict(counts)),
            )
        )
        for count, word in ((3, ''), (5, 'failed requests from 3 to 5')):
            counts['failed requests'] = count
            self.health.poll(self.devices)
            warnings = self.health.warnings.for_disk('one')
            self.assertIn(word, warnings.get('errors', ''))
            self.assertEqual(bool(word), bool(warnings))
        # for a day
        self.assertIn(word, self.poll()['one']['errors'])
        # and what SMART sees alone has not grown when it fails again
        counts['failed requests'] = 900
        self.poll()
        self.smartctl.says(REFUSED, 2)
        self.health.poll(self.devices)
        warnings = self.health.warnings.for_disk('one')
        self.assertIn(word, warnings['errors'])
        self.assertNotIn('900', warnings['errors'])

    def test_errors_grow(self):
        self.poll()
        self.assertEqual(
            {'errors': 'errors of none have grown: media errors from 7 to 9'},
            self.poll(errors=9)['one'],
        )
        # more of them, no more noise; also in another process
        self.assertIn('from 7 to 12', self.poll(errors=12)['one']['errors'])
        self.assertEqual(2, self.log.output.count('have grown'))
        self.health = disk_health.HealthMonitor(self.conf)
        self.assertIn('from 7 to 12', self.poll(errors=12)['one']['errors'])

    def test_a_gauge_falls(self):
        """Sectors that were pending are rewritten, or never were."""
        self.poll(errors=0)
        for _ in range(3):
            self.assertIn('from 0 to 2', self.poll(errors=2)['one']['errors'])
            self.assertIn('from 0 to 1', self.poll(errors=1)['one']['errors'])
            self.assertEqual({}, self.poll(errors=0))
        self.assertNotIn('from 0 to 0', self.log.output)
        self.assertEqual(6, self.log.output.count('errors has ended'))
        self.poll(errors=5)
        # an earlier release has kept more
        self.health = disk_health.HealthMonitor(self.conf)
        self.assertEqual({}, self.poll(errors=0))

    def test_grown_while_nobody_looked(self):
        self.poll()
        self.health = disk_health.HealthMonitor(self.conf)
        self.assertIn('from 7 to 8', self.poll(errors=8)['one']['errors'])

    def test_another_disk(self):
        self.poll()
        self.assertEqual({}, self.poll(serial='S47', errors=99))

    def test_errors_of_long_ago(self):
        clock = itertools.count(0, 50000)
        self.useFixture(
            fixtures.MonkeyPatch('time.time', lambda: float(next(clock) // 2))
        )
        self.poll()
        self.assertIn('one', self.poll(errors=9))
        self.poll(errors=9)
        self.assertEqual({}, self.poll(errors=9))

    def test_says_nothing(self):
        self.poll(degrees=70)
        self.smartctl.says(REFUSED, 2)
        self.health.poll(self.devices)
        self.health.poll(self.devices)
        self.assertEqual([None, None], self.temperatures())
        self.assertEqual(2, self.log.output.count('cannot be read'))

    def test_asleep(self):
        """It was hot when it fell asleep."""
        self.poll(degrees=70)
        self.smartctl.says({'smartctl': {'exit_status': 2}}, 2)
        self.health.poll(self.devices)
        self.assertNotEqual({}, self.health.warnings.for_disk('one'))

    def test_unplugged(self):
        self.poll(degrees=70)
        del self.devices['one']
        self.assertEqual(['two'], list(self.poll(degrees=70)))
        self.assertIsNone(self.health.temperature('one'))
        self.assertIsNotNone(self.health.temperature('two'))


class WarningsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.warnings = disk_health.Warnings()

    def update(self, value):
        self.warnings.update('u', 'heat', f'{value}!', value >= 9, value >= 7)
        return self.warnings.for_disk('u')

    def test_said_once(self):
        for value in (9, 10, 11):
            self.assertEqual({'heat': f'{value}!'}, self.update(value))
        self.assertEqual('Disk u: 9!\n', self.log.output)

    def test_does_not_flap(self):
        self.assertEqual({}, self.update(8))
        self.update(9)
        self.assertEqual({'heat': '8!'}, self.update(8))
        self.assertEqual({}, self.update(6))
        self.assertEqual({}, self.update(8))
        self.assertEqual(
            'Disk u: 9!\nDisk u: the warning of heat has ended.\n',
            self.log.output,
        )
        self.update(9)
        self.assertEqual(2, self.log.output.count('9!'))

    def test_of_each_disk(self):
        self.warnings.update('u', 'b', 'two', True)
        self.warnings.update('u', 'a', 'one', True)
        self.warnings.update('v', 'a', 'three', True)
        self.assertEqual({'a': 'one', 'b': 'two'}, self.warnings.for_disk('u'))
        self.warnings.clear_except({'v'})
        self.assertEqual({}, self.warnings.for_disk('u'))
        self.assertEqual({'a': 'three'}, self.warnings.for_disk('v'))
