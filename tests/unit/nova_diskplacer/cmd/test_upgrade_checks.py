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

from oslotest import base

from nova_diskplacer.api import backend_media
from nova_diskplacer.cmd import upgrade_checks as checks

FILTER = 'nova_diskplacer.scheduler.filter.DiskPlacementFilter'
AVAILABLE = ['nova.scheduler.filters.all_filters', FILTER]


def software(host, release='2.0.0', profiles='abc'):
    return checks.Software(host, release, profiles)


class ResultTest(base.BaseTestCase):
    def assert_success(self, result):
        self.assertEqual(
            (checks.Code.SUCCESS, None), (result.code, result.details)
        )

    def assert_result(self, code, result, *named):
        self.assertEqual(code, result.code, result.details)
        for text in named:
            self.assertIn(text, result.details)

    def assert_failure(self, result, *named):
        self.assert_result(checks.Code.FAILURE, result, *named)

    def assert_warning(self, result, *named):
        self.assert_result(checks.Code.WARNING, result, *named)


class FiltersTest(ResultTest):
    def test_nova(self):
        self.assert_success(
            checks.nova_filters(
                ['ComputeFilter', 'DiskPlacementFilter'], AVAILABLE
            )
        )

    def test_nova_without_ours(self):
        self.assert_failure(
            checks.nova_filters(['ComputeFilter'], AVAILABLE),
            '[filter_scheduler] enabled_filters',
            'servers claim no disks',
        )

    def test_nova_in_the_wrong_order(self):
        self.assert_failure(
            checks.nova_filters(
                ['DiskPlacementFilter', 'ComputeFilter'], AVAILABLE
            ),
            'behind it: ComputeFilter',
            'Move it to the end',
        )

    def test_nova_without_the_class(self):
        self.assert_failure(
            checks.nova_filters(['DiskPlacementFilter'], AVAILABLE[:1]),
            'available_filters is nova.scheduler.filters.all_filters',
            'without the classes of DiskPlacementFilter. ',
            f'available_filters = for each of: {", ".join(AVAILABLE)}. ',
        )
        self.assert_failure(
            checks.nova_filters(
                ['DiskRoomFilter', 'DiskPlacementFilter'], AVAILABLE
            ),
            'without the classes of DiskRoomFilter. ',
            f'{FILTER}, nova_diskplacer.scheduler.room.DiskRoomFilter. ',
        )

    def test_nova_without_its_own_classes(self):
        """A line of ours alone replaces Nova's default."""
        self.assert_failure(
            checks.nova_filters(
                ['ComputeFilter', 'DiskPlacementFilter'], [FILTER]
            ),
            'without the classes of ComputeFilter. ',
        )
        self.assert_success(
            checks.nova_filters(
                ['ComputeFilter', 'DiskPlacementFilter'],
                [
                    FILTER,
                    'nova.scheduler.filters.compute_filter.ComputeFilter',
                ],
            )
        )

    def test_nova_unset(self):
        self.assert_warning(
            checks.nova_filters(None, AVAILABLE[:1]),
            'enabled_filters is not set',
            'on a host of nova-scheduler',
        )

    def test_cinder(self):
        self.assert_success(
            checks.cinder_filters(
                ['CapabilitiesFilter', 'VDiskLocalityFilter']
            )
        )
        self.assert_failure(
            checks.cinder_filters(['CapacityFilter']),
            'scheduler_default_filters is CapacityFilter',
            'Put VDiskLocalityFilter in the place',
        )
        self.assert_failure(
            checks.cinder_filters(['CapacityFilter', 'VDiskLocalityFilter']),
            'Remove it',
        )
        self.assert_warning(
            checks.cinder_filters(None), 'on a host of cinder-scheduler'
        )


class HostsTest(ResultTest):
    def test_alike(self):
        self.assert_success(checks.hosts({'a', 'b'}, {'a', 'b', 'c'}))

    def test_different(self):
        self.assert_failure(
            checks.hosts({'a', 'b.example.org'}, {'a', 'b'}),
            'hosts with disks b.example.org,',
            'but of: a, b.',
            '[DEFAULT] host',
        )
        self.assert_failure(checks.hosts({'a'}, ()), 'but of: none.')


class SoftwareTest(ResultTest):
    def test_one_release(self):
        heard = [software('a'), software('b')]
        self.assert_success(checks.agents(heard, [], '2.0.0'))
        self.assert_success(checks.schedulers(heard, '2.0.0'))

    def test_silent_agents(self):
        self.assert_failure(
            checks.agents([software('a', '1.0.0')], ['c', 'b'], '2.0.0'),
            'agents of b, c have not answered',
            'transport_url',
            'compute service is the last to be deleted',
        )

    def test_other_releases(self):
        heard = [software('a'), software('b', '1.9.0'), software('c', '')]
        for service, result in (
            ('diskplacer-agent', checks.agents(heard, [], '2.0.0')),
            ('nova-scheduler', checks.schedulers(heard, '2.0.0')),
        ):
            self.assert_warning(
                result,
                'is 2.0.0 on this host',
                'b (1.9.0), c (an earlier release)',
                f'restart {service}',
            )

    def test_workers_of_a_host_are_named_once(self):
        result = checks.schedulers([software('a', '1.0.0')] * 3, '2.0.0')
        self.assertEqual(1, result.details.count('a (1.0.0)'))

    def test_no_scheduler(self):
        result = checks.schedulers([], '2.0.0')
        self.assertEqual(checks.Code.SUCCESS, result.code)
        self.assertIn('Not checked', result.details)

    def test_profiles(self):
        heard = [software('a'), software('old', '1.0.0', 'other')]
        self.assert_success(checks.profiles(heard, '2.0.0', 'abc'))
        heard.append(software('b', profiles='def'))
        self.assert_failure(
            checks.profiles(heard, '2.0.0', 'abc'),
            'of this host on: b.',
            '[diskplacer] profile_dirs',
        )


class WeightsTest(ResultTest):
    def hosts(self, controller, *media):
        return [
            checks.WeighingHost('a', controller, frozenset(media)),
            checks.WeighingHost('b', 'auto', frozenset({'ssd'})),
        ]

    def flavor(self, media, *without_bfq):
        return checks.Flavor(
            f'of-{media}', 1, 1, media, '', frozenset(without_bfq)
        )

    def test_no_conflict(self):
        flavors = [self.flavor('ssd', 'hdd'), self.flavor('hdd', 'ssd')]
        for hosts in (
            [],
            self.hosts('auto', 'hdd', 'ssd'),
            self.hosts('io.cost', 'ssd'),
        ):
            self.assert_success(checks.weights(hosts, flavors))

    def test_io_cost_of_hard_disks(self):
        self.assert_warning(
            checks.weights(self.hosts('io.cost', 'hdd', 'ssd'), []),
            'controller is io.cost',
            'on: a. Set controller = auto',
        )

    def test_each_problem_is_told(self):
        hosts = [
            *self.hosts('io.cost', 'hdd'),
            checks.WeighingHost('c', 'auto', frozenset({'hdd'})),
        ]
        self.assert_warning(
            checks.weights(hosts, [self.flavor('any', 'hdd')]),
            'on: a. Set controller = auto',
            'lack bfq: of-any (hdd). Add',
        )

    def test_profiles_without_bfq(self):
        for controller, media in (
            ('auto', {'hdd'}),
            ('bfq', {'hdd'}),
            ('bfq', {'ssd'}),
        ):
            for flavor in ('any', *media):
                (medium,) = media
                self.assert_warning(
                    checks.weights(
                        self.hosts(controller, *media),
                        [self.flavor(flavor, 'hdd', 'ssd')],
                    ),
                    f'lack bfq: of-{flavor} ({medium}). Add',
                )


FLAVOR = checks.Flavor('hadoop', 4, 100)


class MovesTest(ResultTest):
    def test_only_where_servers_may_move(self):
        for enabled, unable in ((False, {'b'}), (False, ()), (True, ())):
            self.assertEqual(
                checks.Code.SUCCESS, checks.moves(enabled, unable).code
            )

    def test_hosts_are_named(self):
        result = checks.moves(True, {'b', 'a'})
        self.assertEqual(checks.Code.WARNING, result.code)
        self.assertIn('moves no vdisks on: a, b.', result.details)


class VolumeTypesTest(ResultTest):
    TYPES = (
        checks.VolumeType('__DEFAULT__', ''),
        checks.VolumeType('fast', 'vdisk'),
        checks.VolumeType('ceph', 'rbd'),
    )

    def test_a_default_with_a_backend(self):
        for name in ('ceph', 'fast'):
            self.assert_success(
                checks.volume_types(self.TYPES, name, {'vdisk'})
            )

    def test_a_default_without_a_backend(self):
        for name, shown in (('__DEFAULT__', '__DEFAULT__'), (None, 'not set')):
            self.assert_warning(
                checks.volume_types(self.TYPES, name, {'vdisk'}),
                f'default_volume_type is {shown}',
                'volume_backend_name',
            )

    def test_no_type(self):
        self.assert_failure(
            checks.volume_types(self.TYPES[::2], 'ceph', {'vdisk'}),
            'openstack volume type create --property '
            'volume_backend_name=vdisk',
        )

    def test_no_backend(self):
        self.assert_failure(
            checks.volume_types(self.TYPES, 'ceph', ()), 'enabled_backends'
        )


class MediaTest(base.BaseTestCase):
    POOLS = (
        backend_media.Pool('c1', 'fast', 'ssd'),
        backend_media.Pool('c1', 'slow', 'hdd'),
    )
    TYPES = (
        checks.VolumeType('gold', 'fast'),
        checks.VolumeType('iron', 'slow'),
        checks.VolumeType('ceph', 'ceph'),
    )

    def _check(self, *flavors, default='gold'):
        return checks.media(flavors, self.TYPES, default, self.POOLS)

    def test_flavors_that_fit(self):
        for media, volume_type in (
            ('ssd', 'gold'),
            ('ssd', ''),
            ('hdd', 'iron'),
            ('any', 'ceph'),
            ('any', 'unknown'),
        ):
            flavor = checks.Flavor('f', 1, 1, media, volume_type)
            result = self._check(flavor)
            self.assertEqual(checks.Code.SUCCESS, result.code, flavor)
        self.assertEqual(
            checks.Code.SUCCESS,
            self._check(checks.Flavor('f', 1, 1), default=None).code,
        )

    def test_each_flavor_that_does_not_is_named(self):
        result = self._check(
            checks.Flavor('one', 1, 1),
            checks.Flavor('right', 1, 1, 'ssd'),
            checks.Flavor('two', 1, 1, 'ssd', 'iron'),
        )
        self.assertEqual(checks.Code.FAILURE, result.code)
        self.assertRegex(
            result.details,
            'one: diskplacer:media is any, .* hdd disks .* type gold has ssd '
            '.*two: diskplacer:media is ssd, .* type iron has hdd disks',
        )
        self.assertNotIn('right', result.details)
