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

from unittest import mock

import ddt
import testtools

from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import vcpu_threads
from nova_diskplacer import exception
from nova_diskplacer.host import libvirt_connection
from tests.fakes import libvirt as fake_libvirt

# What libvirt 9 tells of a guest with two vCPUs and two disks.
STATS = {
    'balloon.current': 2048,
    'balloon.available': 2000,
    'balloon.usable': 1500,
    'balloon.unused': 100,
    'balloon.rss': 3000,
    'balloon.major_fault': 70,
    'balloon.last-update': 1000,
    'vcpu.current': 2,
    'vcpu.maximum': 2,
    'vcpu.0.time': 3_000_000_000,
    'vcpu.0.delay': 500_000_000,
    'vcpu.1.time': 1_000_000_000,
    'vcpu.1.delay': 250_000_000,
    'perf.cache_references': 900,
    'perf.cache_misses': 40,
    'perf.cpu_migrations': 12345,
    'block.count': 2,
    'block.0.path': '/disks/a',
    'block.0.rd.bytes': 4096,
    'block.0.rd.reqs': 2,
    'block.0.wr.bytes': 512,
    'block.0.wr.reqs': 1,
    'block.1.path': '/disks/b',
    'block.1.rd.bytes': 100,
    'block.1.rd.reqs': 3,
    'block.1.wr.bytes': 7,
    'block.1.wr.reqs': 5,
}

ALL = {
    'vcpu_seconds': 4.0,
    'vcpu_wait_seconds': 0.75,
    'migrations': 17,
    'cache_references': 900,
    'cache_misses': 40,
    'disk_reads': 5,
    'disk_read_bytes': 4196,
    'disk_writes': 6,
    'disk_write_bytes': 519,
    'major_faults': 70,
    'memory_used_bytes': 500 << 10,
    'memory_unused_bytes': 100 << 10,
    'memory_rss_bytes': 3000 << 10,
}


def reading(migrations=17, run=3, **changes):
    stats = {**STATS, **changes}
    stats = {name: value for name, value in stats.items() if value is not None}
    return counters.parse('a', run, stats, migrations)


@ddt.ddt
class ParseTest(testtools.TestCase):
    def test_all(self):
        found = reading()
        self.assertEqual(ALL, found.counters)
        self.assertEqual({}, found.missing)
        self.assertEqual((2, 2 << 20), (found.vcpus, found.memory_bytes))
        self.assertEqual(set(counters.TEXTS), set(found.counters))

    @ddt.data(
        ('perf.cache_misses', 'cache_misses', 'enabled_perf_events'),
        ('perf.cache_references', 'cache_references', 'hard reboot'),
        ('vcpu.1.delay', 'vcpu_wait_seconds', 'libvirt 7.1'),
        ('balloon.major_fault', 'major_faults', 'mem_stats_period_seconds'),
        ('balloon.usable', 'memory_used_bytes', 'driver of the balloon'),
        ('balloon.unused', 'memory_unused_bytes', 'driver of the balloon'),
    )
    @ddt.unpack
    def test_what_libvirt_does_not_tell(self, key, name, reason):
        found = reading(**{key: None})
        self.assertEqual(
            {key: value for key, value in ALL.items() if key != name},
            found.counters,
        )
        self.assertEqual({name}, set(found.missing))
        self.assertIn(reason, found.missing[name])

    def test_no_disks(self):
        found = reading(**{'block.count': 0})
        self.assertEqual(
            {name for name in ALL if name.startswith('disk_')},
            set(found.missing),
        )

    def test_migrations_that_are_not_known(self):
        found = reading('no process')
        self.assertEqual({'migrations': 'no process'}, found.missing)

    @ddt.data('vcpu.current', 'balloon.current')
    def test_a_size_that_is_not_known(self, key):
        error = self.assertRaises(errors.SizingError, reading, **{key: None})
        self.assertIn('the vCPUs and memory of server a', str(error))

    def test_a_vcpu_that_is_offline(self):
        found = reading(
            **{'vcpu.maximum': 3, 'vcpu.2.time': None, 'vcpu.2.delay': None}
        )
        self.assertEqual(4.0, found.counters['vcpu_seconds'])


@ddt.ddt
class BetweenTest(testtools.TestCase):
    def test_sums_and_sizes(self):
        after = reading(
            30,
            **{
                'vcpu.0.time': 5_000_000_000,
                'perf.cache_misses': 45,
                'block.1.rd.reqs': 13,
                'balloon.major_fault': 71,
                'balloon.last-update': 1010,
                'balloon.unused': 50,
            },
        )
        found, missing = counters.between(reading(), after)
        self.assertEqual({}, missing)
        self.assertEqual(
            {
                'vcpu_seconds': 2.0,
                'migrations': 13,
                'cache_misses': 5,
                'disk_reads': 10,
                'major_faults': 1,
            },
            {
                name: value
                for name, value in found.items()
                if value and name not in counters.SIZES
            },
        )
        self.assertEqual(50 << 10, found['memory_unused_bytes'])
        self.assertEqual(set(ALL), set(found))

    def test_a_guest_that_did_not_report(self):
        found, missing = counters.between(reading(), reading())
        self.assertNotIn('major_faults', found)
        self.assertIn('reported nothing', missing['major_faults'])

    def test_known_at_one_end_only(self):
        for before, after in ((0, 1), (1, 0)):
            ends = [reading('no process'), reading()]
            found, missing = counters.between(ends[before], ends[after])
            self.assertNotIn('migrations', found)
            self.assertEqual('no process', missing['migrations'])

    def test_a_counter_that_fell(self):
        found, missing = counters.between(
            reading(), reading(**{'block.0.rd.bytes': 5})
        )
        self.assertNotIn('disk_read_bytes', found)
        self.assertIn('reset', missing['disk_read_bytes'])

    @ddt.data(
        ({'run': 4}, 'started anew'),
        ({'vcpu.current': 1}, 'vcpus from 2 to 1'),
        ({'balloon.current': 1024}, 'memory_bytes from 2097152 to 1048576'),
    )
    @ddt.unpack
    def test_a_server_that_changed(self, changes, message):
        error = self.assertRaises(
            errors.SizingError,
            counters.between,
            reading(),
            reading(**changes),
        )
        self.assertIn(message, str(error))


class ReadTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(fake_libvirt.DomainStats())
        self.connection = self.libvirt.connection
        self.domain = self.connection.lookupByUUIDString.return_value
        self.domain.ID.return_value = 9
        self.connection.domainListGetStats.return_value = [
            (self.domain, STATS)
        ]
        self.threads = self.patch_threads(return_value=17)

    def patch_threads(self, **how):
        patch = mock.patch.object(vcpu_threads, 'migrations', **how)
        self.addCleanup(patch.stop)
        return patch.start()

    def test_all(self):
        found = counters.read('test:///', 'a')
        self.assertEqual(reading(run=9), found)
        self.connection.lookupByUUIDString.assert_called_once_with('a')
        self.connection.domainListGetStats.assert_called_once_with(
            [self.domain], 2 | 4 | 8 | 32 | 64
        )
        self.connection.close.assert_called_once_with()

    def test_migrations_are_unknown(self):
        for error in (
            errors.SizingError('no process'),
            PermissionError(13, 'Permission denied'),
        ):
            self.threads.side_effect = error
            found = counters.read('test:///', 'a')
            self.assertEqual({'migrations': str(error)}, found.missing)

    def assert_error(self, text, kind=errors.SizingError):
        error = self.assertRaises(kind, counters.read, 'test:///', 'a')
        self.assertIn(text, str(error))

    def test_no_such_server(self):
        self.connection.lookupByUUIDString.side_effect = fake_libvirt.Error(42)
        self.assert_error('server a does not run on this host')

    def test_a_server_that_does_not_run(self):
        self.domain.ID.return_value = -1
        self.assert_error('server a does not run on this host')

    def test_libvirt_refuses(self):
        self.connection.lookupByUUIDString.side_effect = fake_libvirt.Error(1)
        self.assert_error(
            'libvirt_uri=test:///', kind=exception.HypervisorError
        )

    def test_no_libvirt(self):
        with mock.patch.object(
            libvirt_connection, 'import_libvirt', return_value=None
        ):
            self.assert_error('libvirt-python')
