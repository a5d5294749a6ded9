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

import dataclasses
import pathlib

import fixtures
import testtools

from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import profile_changes
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import profile_files
from tests.unit.diskplacer_measure.sweep import example

SOURCE = (
    'Measured on compute-1, 2026-11-20, results '
    '6f1c0f0e-6a55-4c6e-9c57-2f2f60a9c001, throughput of a server '
    'alone: the next, '
)


class OverlayTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        profile = catalogue.load()['sequential_async']
        queue = dataclasses.replace(
            profile.queue['hdd'], schedulers=('mq-deadline', 'none')
        )
        self.profile = dataclasses.replace(
            profile, queue={**profile.queue, 'hdd': queue}
        )
        self.header = example.header([])

    def changed(self, *rows, profile=None, objective='server', **fields):
        """Return how cells with these MB/s change the profile."""
        results = [
            example.result(cell, repetition, rate * (1 + 0.001 * repetition))
            for repetition in range(3)
            for cell, rate in rows
        ]
        choice = choose.choose(results, 'sequential_async', objective)
        return profile_changes.changed(
            profile or self.profile,
            choice,
            example.header([], **fields),
        )

    def test_vcpus(self):
        profile, changes = self.changed(
            (example.cell(vcpus=1), 50),
            (example.cell(vcpus=2), 100),
            (example.cell(vcpus=4), 80),
        )
        self.assertEqual(
            {
                # the paper warns against less than 4
                'shape.vcpus.minimum': (4, 2),
                'shape.vcpus.recommended': ((4, 4), (2, 2)),
            },
            {one.path: (one.before, one.after) for one in changes},
        )
        self.assertEqual((2, 2), profile.shape.vcpus.recommended)
        for path in ('minimum', 'recommended'):
            self.assertEqual(
                f'{SOURCE}4, gave 0.800 (95 % interval 0.800 to 0.800) of '
                'the highest',
                profile.sources[f'shape.vcpus.{path}'],
            )
        self.assertEqual(
            self.profile.sources['queue.hdd.schedulers'],
            profile.sources['queue.hdd.schedulers'],
        )

    def test_range_of_vcpus(self):
        profile, _ = self.changed(
            *(
                (example.cell(vcpus=vcpus), rate)
                for vcpus, rate in (
                    (1, 100),
                    (2, 50),
                    (4, 100),
                    (8, 100.1),
                    (16, 100),
                    (32, 70),
                )
            )
        )
        self.assertEqual((4, 16), profile.shape.vcpus.recommended)
        self.assertEqual(16, profile.shape.vcpus.maximum)

    def test_nothing_told_nothing_changed(self):
        for rows in (
            (),
            ((example.cell(vcpus=1), 100),),
            ((example.cell(vcpus=1), 100), (example.cell(vcpus=4), 100)),
        ):
            self.assertEqual((self.profile, []), self.changed(*rows))

    def test_what_the_profile_says_already(self):
        profile, changes = self.changed(
            (example.cell(vcpus=2), 50), (example.cell(vcpus=4), 100)
        )
        self.assertEqual([], changes)
        self.assertEqual(self.profile, profile)

    def test_changed_twice(self):
        rows = ((example.cell(vcpus=1), 100), (example.cell(vcpus=4), 50))
        profile, changes = self.changed(*rows)
        self.assertEqual(2, len(changes))
        self.assertEqual((profile, []), self.changed(*rows, profile=profile))

    def test_memory_of_servers_with_as_many_vcpus(self):
        profile, changes = self.changed(
            (example.cell(vcpus=4, ram_mib=1024), 50),
            (example.cell(vcpus=4, ram_mib=2048), 98),
            (example.cell(vcpus=4, ram_mib=2560), 98),
            (example.cell(vcpus=1, ram_mib=8192), 20),
        )
        self.assertEqual((2, 2.5), profile.shape.ram_gb.recommended)
        self.assertIn('1024, gave 0.510', changes[-1].source)
        _, changes = self.changed(
            (example.cell(vcpus=4, ram_mib=2048), 98),
            (example.cell(vcpus=1, ram_mib=1024), 20),
        )
        self.assertEqual([], changes)

    def schedulers(self, *rates, **fields):
        profile, changes = self.changed(
            *(
                (example.cell(host_scheduler=name), rate)
                for name, rate in rates
            ),
            **fields,
        )
        return profile.queue[
            profile and fields.get('disk', self.header.disk).medium
        ].schedulers, [one.path for one in changes]

    def test_schedulers(self):
        before = self.profile.queue['hdd'].schedulers
        self.assertEqual(('mq-deadline', 'none'), before)
        for rates, expected in (
            ((('mq-deadline', 50), ('none', 90)), ('none', 'mq-deadline')),
            (
                (('mq-deadline', 50), ('none', 60), ('bfq', 90)),
                ('bfq', 'mq-deadline', 'none'),
            ),
            ((('mq-deadline', 90), ('none', 90), ('bfq', 50)), before),
            ((('mq-deadline', 90), ('none', 90)), before),
        ):
            found, changes = self.schedulers(*rates)
            self.assertEqual(expected, found, rates)
            self.assertEqual(
                [] if expected == before else ['queue.hdd.schedulers'], changes
            )

    def test_settings_in_the_server(self):
        profile, changes = self.changed(
            *(
                (
                    example.cell(
                        guest_scheduler=scheduler, read_ahead_kb=read_ahead
                    ),
                    rate * read_ahead,
                )
                for scheduler, rate in (('none', 1), ('bfq', 2))
                for read_ahead in (128, 4096)
            )
        )
        self.assertEqual('bfq', profile.guest.scheduler)
        self.assertEqual(4096, profile.guest.read_ahead_kb)
        self.assertEqual(
            ['guest.scheduler: none -> bfq']
            + ['guest.read_ahead_kb: 1024 -> 4096'],
            profile_changes.lines(changes),
        )

    def test_cache_mode(self):
        profile, changes = self.changed(
            (example.cell(cache_mode='none'), 50),
            (example.cell(cache_mode='writeback'), 90),
        )
        self.assertEqual('writeback', profile.cache_mode)
        self.assertEqual(
            ['cache_mode: none -> writeback'], profile_changes.lines(changes)
        )

    def test_objective_and_emulation_are_cited(self):
        _, changes = self.changed(
            (example.cell(scenario='servers', servers=4, vcpus=1), 100),
            (example.cell(scenario='servers', servers=4, vcpus=4), 50),
            objective='host',
            emulated=True,
        )
        for one in changes:
            self.assertIn('throughput of the whole host: ', one.source)
            self.assertIn('without KVM', one.source)

    def test_written_profile_can_be_read(self):
        profile, changes = self.changed(
            (example.cell(vcpus=1, host_scheduler='bfq'), 100),
            (example.cell(vcpus=4), 50),
        )
        self.assertEqual(3, len(changes))
        path = pathlib.Path(
            self.useFixture(fixtures.TempDir()).join('profile.yaml')
        )
        path.write_text(profile_files.dump(profile))
        self.assertEqual(profile, profile_files.read(path))
