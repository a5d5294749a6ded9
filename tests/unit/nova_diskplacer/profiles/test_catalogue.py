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

"""The shipped profiles, and what is said of files that are wrong."""

import errno
import os
import pathlib
import re

import fixtures
import jsonschema
import yaml
from nova import objects
from nova.api.validation.extra_specs import validators
from nova.virt import hardware
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import profile_files

# Cores of a NUMA node where a host of 32 cores, as P2 §3.1 has, is of two.
_CELL = 16

NAMES = {
    'sequential_sync',
    'sequential_async',
    'mapreduce',
    'key_value',
    'interactive',
    'batch',
    'neutral',
}


class ShippedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.catalogue = catalogue.load()

    def test_names_and_aliases(self):
        self.assertEqual(NAMES, set(self.catalogue))
        for alias, name in (
            ('hadoop', 'mapreduce'),
            ('spark', 'sequential_async'),
            ('cassandra', 'key_value'),
        ):
            self.assertIs(self.catalogue[name], self.catalogue[alias])

    def test_file_names(self):
        directory = pathlib.Path(catalogue.__file__).parent
        for name in NAMES:
            self.assertEqual(
                name, profile_files.read(directory / f'{name}.yaml').name
            )

    def test_every_setting_has_a_source(self):
        for profile in self.catalogue.values():
            self.assertEqual(
                set(definitions.settings(profile)),
                set(profile.sources),
                profile.name,
            )

    def test_every_source_is_a_place_in_a_paper_or_says_that_it_is_none(self):
        place = re.compile(r'(?=P[0-4] ).*(§|Table|Fig\.|, table|Results)')
        for profile in self.catalogue.values():
            for setting, source in profile.sources.items():
                if not source.startswith('No paper'):
                    self.assertRegex(
                        source, place, f'{profile.name}: {setting}'
                    )

    def test_what_p0_only_conjectures_is_told_so(self):
        """It measured neither NUMA nor pinning."""
        for profile in self.catalogue.values():
            for setting, source in profile.sources.items():
                if 'P0 §V-A' in source and setting.startswith(
                    ('specs.diskplacer:numa', 'hw.')
                ):
                    self.assertRegex(
                        source,
                        'P0 §V-A conjectures.* fat servers',
                        f'{profile.name}: {setting}',
                    )

    def test_places(self):
        for name, setting, place in (
            ('batch', 'weight', r'P4 §I-C: .*10, the highest.* §V-A: the low'),
            ('batch', 'weight', r'^((?!Table II|§IV-D).)*$'),
            ('sequential_async', 'priority', '^No paper '),
            (
                'mapreduce',
                'shape.vcpus.recommended',
                r'P2 §3\.2: 15 or 10 cores.* §3\.3, Fig\. 2\(a\): ',
            ),
        ):
            self.assertRegex(self.catalogue[name].sources[setting], place)

    def test_papers_are_told_by_title(self):
        for paper in catalogue.PAPERS.values():
            self.assertNotIn('.txt', paper)
        self.assertIn(
            'Understanding Vertical Scalability of I/O Virtualization',
            catalogue.PAPERS['P2'],
        )
        self.assertIn(
            "The Impacts of Virtualization on Big Data Application's Workload",
            catalogue.PAPERS['P3'],
        )

    def test_one_cell_holds_the_largest_shape(self):
        objects.register_all()
        for profile in self.catalogue.values():
            limits = profile.shape.vcpus
            largest = limits.maximum or (limits.recommended or (0, 0))[1]
            topology = hardware.numa_get_constraints(
                objects.Flavor(
                    vcpus=largest, memory_mb=1024, extra_specs=profile.hw
                ),
                objects.ImageMeta(properties=objects.ImageMetaProps()),
            )
            for cell in topology.cells if topology else ():
                self.assertLessEqual(len(cell.total_cpus), _CELL, profile.name)

    def test_nova_takes_every_extra_spec(self):
        for profile in self.catalogue.values():
            for key, value in {**profile.specs, **profile.hw}.items():
                validators.validate(key, value)

    def test_each_fits_its_own_shape(self):
        """What a profile asks for by default is what it recommends."""
        for profile in self.catalogue.values():
            wanted = profile.shape.vdisks.recommended
            if wanted:
                low, high = wanted
                vdisks = int(profile.specs['diskplacer:vdisks'])
                self.assertTrue(low <= vdisks <= high, profile.name)

    def test_alone_is_enough_but_for_neutral(self):
        for name in NAMES - {'neutral'}:
            request = flavor.parse(
                {'diskplacer:profile': name}, self.catalogue
            )
            self.assertEqual(name, request.profile)
        self.assertIsNone(
            flavor.parse({'diskplacer:profile': 'neutral'}, self.catalogue)
        )

    def test_find_names_what_there_is(self):
        error = self.assertRaises(
            exception.ProfileError, self.catalogue.find, 'hadop'
        )
        self.assertIn('no profile hadop', str(error))
        self.assertIn('mapreduce (yarn, hadoop, hdfs)', str(error))

    def test_schema_is_a_schema(self):
        schema = yaml.safe_load(profile_files.SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)


class OwnTest(base.BaseTestCase):
    """Profiles of an operator's."""

    good = {'name': 'scan', 'title': 'Scans', 'description': 'Reads it all.'}

    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path

    def write(self, file='own.yaml', text=None, **changes):
        path = pathlib.Path(self.dir, file)
        path.write_text(text or yaml.safe_dump({**self.good, **changes}))
        return path

    def refused(self, *parts, text=None, **changes):
        path = self.write(text=text, **changes)
        error = self.assertRaises(
            exception.ProfileError, catalogue.load, [self.dir]
        )
        for part in (str(path), *parts):
            self.assertIn(part, str(error))

    def test_absent_directory_holds_none(self):
        absent = os.path.join(self.dir, 'absent')
        self.assertEqual(NAMES, set(catalogue.load([absent])))

    def test_directory_that_is_a_file(self):
        path = self.write()
        error = self.assertRaises(
            exception.ProfileError, catalogue.load, [str(path)]
        )
        self.assertIn(str(path), str(error))

    def test_everything(self):
        self.write(
            aliases=['grep'],
            specs={'diskplacer:vdisks': 4, 'diskplacer:media': 'ssd'},
            hw={'hw:numa_nodes': 2, 'hw:mem_page_size': 'large'},
            queue={'ssd': {'schedulers': ['kyber', 'none'], 'nomerges': 2}},
            cache_mode='writeback',
            priority=7,
            weight=3,
            shape={'vcpus': {'minimum': 1, 'recommended': [2, 4]}},
            guest={'filesystem': 'xfs', 'mount_options': ['noatime']},
            sources={'queue.ssd.nomerges': 'measured'},
        )
        profile = catalogue.load([self.dir])['grep']
        self.assertEqual(
            definitions.Profile(
                'scan',
                'Scans',
                'Reads it all.',
                aliases=('grep',),
                specs={'diskplacer:vdisks': '4', 'diskplacer:media': 'ssd'},
                hw={'hw:numa_nodes': '2', 'hw:mem_page_size': 'large'},
                queue={
                    'ssd': definitions.Queue(('kyber', 'none'), nomerges=2)
                },
                cache_mode='writeback',
                priority=7,
                weight=3,
                shape=definitions.Shape(
                    vcpus=definitions.Limits(1, None, (2, 4))
                ),
                guest=definitions.Guest('xfs', ('noatime',)),
                sources={'queue.ssd.nomerges': 'measured'},
            ),
            profile,
        )

    def test_later_replaces_earlier_and_shipped(self):
        self.write('1.yaml', name='batch', title='first')
        self.write('2.yaml', name='batch', title='second')
        self.write('3.txt', title='no profile')
        found = catalogue.load([self.dir])
        self.assertEqual('second', found['batch'].title)
        self.assertEqual(NAMES, set(found))
        # its aliases went with the profile that was replaced
        self.assertNotIn('background', found)

    def test_name_goes_before_alias(self):
        self.write(name='hadoop')
        found = catalogue.load([self.dir])
        self.assertEqual('Scans', found['hadoop'].title)

    def test_alias_of_two(self):
        self.write(aliases=['spark'])
        error = self.assertRaises(
            exception.ProfileError, catalogue.load, [self.dir]
        )
        self.assertIn('spark', str(error))
        self.assertIn('sequential_async', str(error))
        self.assertIn('scan', str(error))

    def test_no_yaml(self):
        self.refused(text='name: [')

    def test_nothing_in_it(self):
        self.refused('object', text='# empty\n')

    def test_key_twice(self):
        self.refused('weight is given twice', text='weight: 1\nweight: 2\n')

    def test_unreadable(self):
        os.mkdir(os.path.join(self.dir, 'own.yaml'))
        error = self.assertRaises(
            exception.ProfileError, catalogue.load, [self.dir]
        )
        self.assertIn('own.yaml: Is a directory', str(error))

    def test_key_that_is_a_list(self):
        self.refused(text='? [a, b]\n: c\n')

    def test_missing_key(self):
        self.refused("'title' is a required", text='name: x\ndescription: y\n')

    def test_unknown_key(self):
        self.refused('colour is not one of: name, aliases', colour='red')

    def test_unknown_queue_setting(self):
        self.refused(
            'queue.hdd: readahead is not one of: schedulers, read_ahead_kb',
            queue={'hdd': {'readahead': 1}},
        )

    def test_unknown_scheduler(self):
        self.refused(
            'queue.hdd.schedulers.0=cfq is not one of: mq-deadline, none',
            queue={'hdd': {'schedulers': ['cfq']}},
        )

    def test_unknown_medium(self):
        self.refused('queue: tape is not one of: hdd, ssd', queue={'tape': {}})

    def test_bad_number(self):
        self.refused('weight: 101', 'maximum of 100', weight=101)
        self.refused("weight: 'high'", 'integer', weight='high')

    def test_bad_cache_mode(self):
        self.refused(
            'cache_mode=unsafe is not one of: none, writeback',
            cache_mode='unsafe',
        )

    def test_unknown_spec(self):
        self.refused(
            'specs: the key of diskplacer:disks=4 is not one of: '
            'diskplacer:vdisks, diskplacer:vdisk_gb',
            specs={'diskplacer:disks': 4},
        )

    def test_spec_without_its_namespace(self):
        self.refused(
            'specs: the key of vdisks=3 is not one of: diskplacer:vdisks',
            specs={'vdisks': 3},
        )

    def test_key_that_is_not_a_string(self):
        self.refused('3 is not a string', specs={3: 4})
        self.refused('True is not a string', text='hw:\n  yes: 1\n')

    def test_spec_on_host_loss(self):
        """Each flavor says for itself that data may be lost."""
        self.refused(
            'specs: the key of diskplacer:on_host_loss=blank is not one of',
            specs={'diskplacer:on_host_loss': 'blank'},
        )

    def test_spec_profile(self):
        self.refused(
            'specs: the key of diskplacer:profile=batch is not one of',
            specs={'diskplacer:profile': 'batch'},
        )

    def test_bad_spec(self):
        self.refused(
            'specs: diskplacer:vdisks=65 is not an integer from 1 to 64',
            specs={'diskplacer:vdisks': 65},
        )

    def test_bad_hw(self):
        self.refused(
            'hw.hw:cpu_policy=pinned is not one of: shared, dedicated',
            hw={'hw:cpu_policy': 'pinned'},
        )
        self.refused('hw', 'quota:cpu_shares', hw={'quota:cpu_shares': 1})

    def test_unknown_key_beside_one_that_a_pattern_allows(self):
        self.refused(
            'hw: foo is not one of: hw:cpu_policy',
            'hw:numa_nodes, or like ^hw:[a-z]',
            hw={'hw:mem_page_size': 'large', 'foo': 1},
        )

    def test_source_of_nothing(self):
        self.refused(
            'sources: queue.hdd.nomerges is not one of the settings',
            'priority, weight',
            sources={'queue.hdd.nomerges': 'P0'},
        )

    def test_limits_upside_down(self):
        self.refused(
            'shape.vcpus',
            'rising',
            shape={'vcpus': {'minimum': 4, 'maximum': 2}},
        )
        self.refused('shape.ram_gb', shape={'ram_gb': {'recommended': [2, 1]}})


class DefaultDirectoriesTest(base.BaseTestCase):
    """The default directory, and that of earlier releases."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.former, self.new = (
            self.useFixture(fixtures.TempDir()).path for _ in range(2)
        )
        self.patch_('FORMER_PROFILE_DIR', self.former)
        self.patch_('PROFILE_DIRS.default', [self.former, self.new])
        for directory, title in ((self.former, 'old'), (self.new, 'new')):
            for name in ('both', title):
                path = pathlib.Path(directory, f'{name}.yaml')
                path.write_text(
                    f'name: {name}\ntitle: {title}\ndescription: x\n'
                )

    def patch_(self, name, value):
        self.useFixture(
            fixtures.MonkeyPatch(
                f'nova_diskplacer.conf.diskplacer.{name}', value
            )
        )

    def close(self, closed):
        """Have a directory refused, as to another user: root reads all."""
        real = os.listdir, pathlib.Path.iterdir

        def listdir(path='.'):
            if str(path) == closed:
                raise PermissionError(errno.EACCES, 'Permission denied', path)
            return real[0](path)

        def iterdir(path):
            if str(path) == closed:
                raise PermissionError(errno.EACCES, 'Permission denied', path)
            return real[1](path)

        self.useFixture(fixtures.MonkeyPatch('os.listdir', listdir))
        self.useFixture(fixtures.MonkeyPatch('pathlib.Path.iterdir', iterdir))

    def load(self):
        return catalogue.load(diskplacer.PROFILE_DIRS.default)

    def test_both_are_read(self):
        found = self.load()
        self.assertEqual({*NAMES, 'both', 'old', 'new'}, set(found))
        self.assertEqual('new', found['both'].title)
        self.assertEqual('', self.log.output)

    def test_former_one_is_closed(self):
        self.close(self.former)
        for _ in range(2):
            self.assertEqual({*NAMES, 'both', 'new'}, set(self.load()))
        # once
        self.assertEqual(1, self.log.output.count(self.former))

    def test_former_one_is_closed_and_others_are_added(self):
        self.close(self.former)
        more = os.path.join(self.new, 'absent')
        found = catalogue.load([*diskplacer.PROFILE_DIRS.default, more])
        self.assertIn('new', found)

    def test_what_is_configured_is_closed(self):
        for directories, closed in (
            ([self.former], self.former),
            ([self.former, self.new], self.new),
        ):
            self.close(closed)
            error = self.assertRaises(
                exception.ProfileError, catalogue.load, directories
            )
            self.assertEqual(f'{closed}: Permission denied', str(error))
