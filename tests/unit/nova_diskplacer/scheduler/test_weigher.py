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

"""Tests of the weighers, without Nova's services."""

import types
import unittest
from unittest import mock

import numpy as np
from nova import objects
from nova.objects import aggregate
from nova.scheduler import weights

from nova_diskplacer import conf
from nova_diskplacer.scheduler import candidates
from nova_diskplacer.scheduler import filter as filters
from nova_diskplacer.scheduler import pressure_weigher
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler import server_volumes
from nova_diskplacer.scheduler import weigher
from nova_diskplacer.scheduler.plan import Choice
from tests.unit.nova_diskplacer.scheduler import fakes


class PlacementWeigherTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.weigher = weigher.DiskPlacementWeigher()
        self.spec = request_spec()

    def _weights(self, *scores):
        return self._weighed(self._hosts(*scores))

    def _hosts(self, *scores):
        hosts = [fakes.host_state(number) for number in range(len(scores))]
        run = self._run(np.array(scores))
        disk_request.state_of(self.spec).last_run = run
        return run.offer(hosts, np.arange(len(hosts)))

    def _run(self, scores):
        nothing = np.zeros((len(scores), 1), dtype=np.int64)
        choice = Choice(scores >= 0, nothing, scores)
        return candidates.FilterRun(
            'server', None, None, nothing[:, 0], choice, None
        )

    def _weighed(self, hosts):
        weighed = [types.SimpleNamespace(obj=host) for host in hosts]
        return self.weigher.weigh_objects(weighed, self.spec)

    def test_scores(self):
        low, high, top = self._weights(0.25, 0.5, 1.0)
        self.assertEqual([0.25, 0.5, 1.0], [low, high, top])

    def test_another_filter_rejects_hosts_and_reorders_others(self):
        first, second, third, _ = self._hosts(0.1, 0.2, 0.3, 0.4)
        self.assertEqual([0.3, 0.1], self._weighed([third, first]))
        self.assertEqual(
            [0.2, 0.1, 0.3], self._weighed([second, first, third])
        )

    def test_another_request_filters_the_same_hosts_at_the_same_time(self):
        hosts = self._hosts(0.25, 0.5, 0.75)
        others = self._run(np.array([0.0, 1.0]))
        others.offer(hosts[1:], np.array([1, 0]))
        self.assertEqual([0.25, 0.5, 0.75], self._weighed(hosts))

    def test_nova_comes_back_to_a_host_when_it_has_tried_the_others(self):
        hosts = self._hosts(0.9, 0.1)
        a, b, again, once_more = self._weighed(
            [hosts[0], hosts[1], hosts[0], hosts[0]]
        )
        self.assertTrue(a > b > again > once_more)
        self.assertAlmostEqual(0.9, a, 5)

    def test_other_requests_weigh_nothing(self):
        self.assertEqual([], self._weighed([fakes.host_state(0)] * 2))


def request_spec(**extra_specs):
    return objects.RequestSpec(
        instance_uuid='5e1f0000-0000-4000-8000-000000000001',
        flavor=objects.Flavor(
            name='big',
            extra_specs={
                f'diskplacer:{name}': str(value)
                for name, value in extra_specs.items()
            },
        ),
    )


class MultiplierTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()

    def _multiplier(self, tested, *metadata):
        host = fakes.host_state(0)
        host.aggregates = [
            aggregate.Aggregate(metadata=one) for one in metadata
        ]
        return tested.weight_multiplier(host)

    def test_multiplier(self):
        self.addCleanup(conf.CONF.reset)
        for kind in (
            weigher.DiskPlacementWeigher,
            pressure_weigher.DiskPressureWeigher,
        ):
            tested = kind()
            # until requests come, which read the option
            sign = self._multiplier(tested)
            self.assertEqual(
                -1.0 if kind is pressure_weigher.DiskPressureWeigher else 1.0,
                sign,
            )
            self.addCleanup(
                conf.CONF.clear_override, kind.option, 'diskplacer_scheduler'
            )
            conf.CONF.set_override(kind.option, -2.0, 'diskplacer_scheduler')
            weighed = types.SimpleNamespace(obj=fakes.host_state(0))
            self.assertEqual(
                [], tested.weigh_objects([weighed], request_spec())
            )
            self.assertEqual(sign * -2.0, self._multiplier(tested))
            self.assertEqual(
                sign * -2.0, self._multiplier(tested, {'other': '3'})
            )
            self.assertEqual(
                sign * 3.0,
                self._multiplier(
                    tested, {kind.option: '3'}, {kind.option: '4'}
                ),
            )
            self.assertEqual(
                sign * -2.0, self._multiplier(tested, {kind.option: 'many'})
            )


class PressureWeigherTest(unittest.TestCase):
    def setUp(self):
        objects.register_all()
        self.cache = fakes.make_cache()
        self.hosts = [fakes.host_state(number) for number in range(3)]
        self.asked_for_the_cache = 0
        patch = mock.patch.object(
            pressure_weigher.report_listener, 'get_cache', self._get_cache
        )
        patch.start()
        self.addCleanup(patch.stop)

    def _get_cache(self):
        self.asked_for_the_cache += 1
        return self.cache

    def _report(self, number, *disks):
        disks = [fakes.disk(number, i, **one) for i, one in enumerate(disks)]
        self.cache.update(fakes.report(number, *disks))

    def _weights(self, **extra_specs):
        """Weigh what passes the filter, as Nova does, by host."""
        spec = request_spec(**extra_specs)
        with (
            mock.patch.object(
                filters.report_listener, 'get_cache', self._get_cache
            ),
            mock.patch.object(
                server_volumes,
                'read',
                lambda *_: server_volumes.ServerVolumes(),
            ),
        ):
            passed = filters.DiskPlacementFilter().filter_all(self.hosts, spec)
        weighed = weights.HostWeightHandler().get_weighed_objects(
            [pressure_weigher.DiskPressureWeigher()], list(passed), spec
        )
        return {one.obj.host: round(one.weight, 9) for one in weighed}

    def test_chosen_disks(self):
        full = {'pressure': 100, 'used_gb': 100}
        self._report(0, {'pressure': 0}, {'pressure': 40}, full)
        self._report(1, {'pressure': 30}, {'pressure': 30})
        self._report(2, {}, {})
        self.assertEqual(
            {'host0': -2.0, 'host1': -3.0, 'host2': 0.0},
            self._weights(vdisks=2, vdisk_gb=10),
        )

    def test_each_vdisk_counts(self):
        self._report(0, {'pressure': 10}, {'pressure': 90, 'used_gb': 90})
        self._report(1, {'pressure': 50}, {'pressure': 50})
        self.assertEqual(
            {'host0': -3.0, 'host1': -5.0},
            self._weights(vdisks=4, vdisk_gb=10, vdisks_per_disk=3),
        )

    def test_without_vdisks_all_disks_count(self):
        self._report(0, *({'pressure': p} for p in (0, 40, 80)))
        self._report(1)
        with mock.patch.object(disk_request, 'from_spec', lambda spec: None):
            self.assertEqual(
                {'host0': -4.0, 'host1': 0.0, 'host2': 0.0},
                self._weights(io_tier='gold'),
            )

    def test_other_requests_weigh_nothing(self):
        self._report(0, {'pressure': 50})
        self.assertEqual({0.0}, set(self._weights().values()))
        self.assertEqual(0, self.asked_for_the_cache)

    def test_no_pressure_costs_nova_nothing(self):
        for number in range(3):
            self._report(number, {'pressure': 0}, {})
        with mock.patch.object(
            pressure_weigher.DiskPressureWeigher,
            'weight_multiplier',
            side_effect=AssertionError,
        ):
            self.assertEqual(
                {'host0': 0.0, 'host1': 0.0, 'host2': 0.0},
                self._weights(vdisks=2, vdisk_gb=10),
            )

    def test_an_expired_report(self):
        self._report(0, {'pressure': 100})
        self.cache._clock.now += 61
        with mock.patch.object(disk_request, 'from_spec', lambda spec: None):
            self.assertEqual(
                {0.0}, set(self._weights(io_tier='gold').values())
            )
