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

import contextlib
import io
import itertools

import hypothesis
import numpy as np
import testtools
from hypothesis import strategies as st

import _placement_bounds as bounds
import _placement_figures as figures
import _placement_fleet as fleets
import _placement_loads as loads
import _placement_policies as policies
import _placement_race as race
import _placement_simulation as simulation
import placement_quality
from nova_diskplacer import conf
from nova_diskplacer.scheduler import packing
from nova_diskplacer.scheduler import plan
from nova_diskplacer.scheduler import retries
from tests.unit.nova_diskplacer.scheduler import fakes

MIXES = (
    (fleets.equal, loads.general),
    (fleets.media, loads.media),
    (fleets.unlike, loads.narrow),
)


def policies_():
    return policies.ours() + policies.PEERS


def flavor(vdisks, gb):
    return loads._flavor(1, vdisks, gb, 1, 1)


def arrivals(*servers):
    """Return requests as (time, kind, end)."""
    return loads.Arrivals(
        *(np.array(values) for values in zip(*servers, strict=True))
    )


def simulated(shape, mix, load=0.9, seed=1, until=0.3, chosen=None):
    rng = np.random.default_rng(seed)
    stream = loads.arrivals(mix, shape.capacity_gb, load, rng, until)
    found = simulation.Simulation(shape, mix, chosen or policies_(), rng)
    return stream, found


class SimulationTest(testtools.TestCase):
    def test_gib_are_those_of_the_servers_that_are_there(self):
        for make_shape, make_mix in MIXES:
            shape, mix = make_shape(6), make_mix()
            stream, its = simulated(shape, mix)
            hosts, (snapshot,) = its.run(stream, [0.2])
            there = (stream.times < 0.2) & (stream.ends > 0.2)
            gb = np.array([one.gb for one in mix])[stream.kinds]
            vcpus = np.array([one.host_claims[0] for one in mix])
            vcpus = vcpus[stream.kinds]
            for copy in range(len(its.policies)):
                for host in range(6):
                    on_host = there & (hosts[copy] == host)
                    self.assertEqual(
                        gb[on_host].sum(), snapshot.used_gb[copy, host].sum()
                    )
                    self.assertEqual(
                        shape.host_total[host, 0] - vcpus[on_host].sum(),
                        snapshot.host_free[copy, host, 0],
                    )
                self.assertTrue(
                    (snapshot.used_gb[copy] <= shape.total_gb).all()
                )

    def test_nothing_is_left_of_servers_that_are_deleted(self):
        shape, mix = fleets.equal(4), loads.general()
        stream, its = simulated(shape, mix)
        last = float(stream.ends.max())
        stream = loads.Arrivals(
            np.append(stream.times, last),
            np.append(stream.kinds, 0),
            np.append(stream.ends, last + 1),
        )
        its.run(stream)
        vdisks = its.fleet.vdisks.reshape(len(its.policies), -1)
        self.assertEqual({1}, set(vdisks.sum(axis=1).tolist()))

    def test_nobody_refuses_what_fits(self):
        """Each policy chooses a host whenever there is one."""
        shape, mix = fleets.equal(3), loads.general()
        stream, its = simulated(shape, mix, load=1.2)
        hosts, _ = its.run(stream)
        self.assertTrue((hosts == simulation.REFUSED).any())
        for kind, evaluation in enumerate(its.evaluations):
            rows = its.choose_rows(kind)
            fits = evaluation.fits & evaluation.candidates
            self.assertEqual(
                fits.reshape(len(rows), -1).any(axis=1).tolist(),
                (rows != simulation.REFUSED).tolist(),
            )
            self.assertTrue(fits[rows[rows >= 0]].all())

    def test_kept_evaluations_are_those_of_the_whole_fleet(self):
        for make_shape, make_mix in MIXES:
            shape, mix = make_shape(6), make_mix()
            mix = loads.claiming_mbps(mix, 80)
            stream, its = simulated(shape, mix, until=0.1)
            its.run(stream)
            for evaluation in its.evaluations:
                evaluation.update()
                whole = fleets.Evaluation(its.fleet, evaluation.flavor)
                whole.update()
                for name in ('fits', 'scores', 'candidates', 'disks'):
                    np.testing.assert_array_equal(
                        getattr(whole, name), getattr(evaluation, name)
                    )
                np.testing.assert_array_equal(whole.space, evaluation.space)

    def test_one_seed_one_result(self):
        shape, mix = fleets.equal(4), loads.general()
        first, second = (
            its.run(stream)[0]
            for stream, its in (simulated(shape, mix) for _ in range(2))
        )
        np.testing.assert_array_equal(first, second)

    def test_pieces_are_on_distinct_disks(self):
        shape = fleets.equal(2)
        mix = (flavor(4, 100),)
        stream, its = simulated(shape, mix, until=0.01)
        its.run(stream)
        every = np.arange(len(its.policies))
        rows = its.choose_rows(0)
        placed = rows >= 0
        counts = its.place(0, every[placed], rows[placed], 'server')
        self.assertEqual({4}, set((counts == 1).sum(axis=1).tolist()))


class PoliciesTest(testtools.TestCase):
    def decisions(self):
        shape, mix = fleets.equal(8), loads.general()
        shape = fleets.with_scarce(shape, mix, 0.85, 0, 1.0)
        stream, its = simulated(shape, mix, load=0.85)
        its.run(stream)
        for evaluation, copy in itertools.product(
            its.evaluations, range(len(its.policies))
        ):
            evaluation.update()
            decision = policies.Decision(evaluation, copy)
            if len(decision.hosts):
                yield its, decision

    def test_product_scores_as_the_filter_does(self):
        conf.register_opts(conf.CONF)
        group = conf.CONF.diskplacer_scheduler
        weigh = policies.product(group.disk_spread_up_to, group.disk_pack_from)
        packs = 0
        for its, decision in self.decisions():
            evaluation = decision.evaluation
            every = np.arange(its.fleet.hosts) + decision.copy * 8
            rows = every[evaluation.candidates[every]]
            free = its.fleet.free(rows)
            choice = plan.DiskPlan(evaluation.flavor.request).choose(free)
            pack = packing.of_request(
                free,
                evaluation.flavor.request,
                [fakes.host_state(at) for at in range(len(rows))],
                'seed',
            )
            scores = choice.scores
            if pack is not None:
                packs += 1
                scores = pack.blend(choice).scores
            np.testing.assert_array_equal(rows[choice.fits], decision.rows)
            # the same random numbers
            rng = retries._generator('seed')
            np.testing.assert_allclose(
                scores[choice.fits].round(4), weigh(decision, rng)
            )
        self.assertGreater(packs, 0)

    def test_nova_weighs_shares_of_the_freest_host(self):
        for its, decision in self.decisions():
            free = its.fleet.host_free[decision.rows]
            np.testing.assert_allclose(
                sum(free[:, at] / free[:, at].max() for at in range(3)),
                policies.nova(decision),
            )

    @hypothesis.given(
        st.lists(st.integers(0, 3), min_size=1, max_size=9),
        st.integers(0, 9),
        st.booleans(),
    )
    def test_the_best_host_is_the_first_of_the_order(
        self, weights, seed, random_ties
    ):
        policy = policies.Policy(
            '', lambda *_: np.array(weights), random_ties=random_ties
        )
        best = policy.choose(None, np.random.default_rng(seed))
        order = policy.order(None, np.random.default_rng(seed))
        self.assertEqual(max(weights), weights[best])
        self.assertEqual(list(range(len(weights))), sorted(order.tolist()))
        ordered = [weights[at] for at in order]
        self.assertEqual(sorted(weights, reverse=True), ordered)
        if not random_ties:
            self.assertEqual(best, order[0])

    def test_peers(self):
        """Two hosts: the first has more vdisks and fewer GiB."""
        shape = fleets.equal(2, disks=2, disk_gb=400)
        mix = (flavor(1, 10), flavor(1, 300))
        chosen = policies.PEERS
        its = simulation.Simulation(
            shape, mix, chosen, np.random.default_rng(1)
        )
        for copy in range(len(chosen)):
            # of 800 GiB 770 are free, at most 390 on a disk
            its.claim(np.array([2 * copy]), np.array([[2, 1]]), 0)
            # 500, at most 400
            its.claim(np.array([2 * copy + 1]), np.array([[1, 0]]), 1)
        hosts = {
            policy.name: int(row) % 2
            for policy, row in zip(chosen, its.choose_rows(0), strict=True)
        }
        del hosts['random']
        self.assertEqual(
            {
                'first_fit': 0,
                'best_fit': 1,
                'nova_disk': 0,
                'topolvm': 0,
                'openebs_space': 1,
                'openebs_volumes': 1,
                'openebs_capacity': 0,
            },
            hosts,
        )


class LoadsTest(testtools.TestCase):
    def test_the_beginning_has_the_load(self):
        for lifetimes in (loads.usual, loads.traced):
            rng = np.random.default_rng(3)
            mix, capacity = loads.general(), 20_000_000
            found = loads.arrivals(mix, capacity, 0.7, rng, 1.0, lifetimes)
            gb = np.array([one.gb for one in mix])[found.kinds]
            first = gb[found.times == 0].sum()
            self.assertAlmostEqual(0.7, first / capacity, delta=0.05)
            self.assertTrue((found.ends > found.times).all())

    def test_a_mean_lifetime_is_1(self):
        for lifetimes in (loads.usual, loads.traced):
            lives = lifetimes(np.random.default_rng(1), 400_000)
            self.assertAlmostEqual(1, lives.mean(), delta=0.05)

    def test_random_mixes_fit_on_empty_hosts(self):
        for number in range(30):
            scenario = placement_quality.holdout_scenario(number, 1, 1.0)
            fleet = fleets.Fleet(scenario.shape, 1)
            for one in scenario.mix:
                evaluation = fleets.Evaluation(fleet, one)
                evaluation.update()
                self.assertTrue(evaluation.fits.all(), one)

    def test_a_batch_is_as_large_as_said(self):
        mix = loads.general()
        found = loads.batch(mix, 100_000, 0.9, np.random.default_rng(1))
        gb = sum(mix[kind].gb for kind in found.kinds)
        self.assertTrue(90_000 <= gb <= 91_800, gb)


class BoundsTest(testtools.TestCase):
    def test_over_time(self):
        mix = (flavor(1, 100),)
        apart = arrivals((0.0, 0, 1.0), (1.5, 0, 2.0))
        self.assertAlmostEqual(200, bounds.over_time(mix, apart, 100))
        together = arrivals((0.0, 0, 1.0), (0.5, 0, 2.0))
        self.assertAlmostEqual(100, bounds.over_time(mix, together, 100))
        self.assertAlmostEqual(150, bounds.over_time(mix, together, 150))

    def test_of_batch(self):
        shape = fleets.equal(1, disks=2, disk_gb=300)
        mix = (flavor(1, 200), flavor(2, 100))
        # one server of two vdisks of 100 GiB beside one on each disk
        batch = arrivals(*((0.0, kind, 9.0) for kind in (0, 0, 0, 1, 1)))
        self.assertAlmostEqual(600, bounds.of_batch(mix, batch, shape, 10))
        alone = arrivals(*((0.0, 0, 9.0) for _ in range(3)))
        self.assertAlmostEqual(400, bounds.of_batch(mix, alone, shape, 10))
        # both vdisks of a server are not on one disk
        shape = fleets.equal(1, disks=2, disk_gb=100)
        shape.total_gb[0] = 250, 50
        self.assertAlmostEqual(
            0, bounds.of_batch(mix[1:], arrivals((0.0, 0, 9.0)), shape, 10)
        )

    def test_no_policy_exceeds_them(self):
        shape, mix = fleets.equal(3), loads.general()
        stream, its = simulated(shape, mix, load=1.1)
        gb = np.array([one.gb for one in mix])
        hosts, _ = its.run(stream)
        most = bounds.over_time(mix, stream, shape.capacity_gb)
        for of_policy in hosts:
            accepted = gb[stream.kinds[of_policy >= 0]].sum()
            self.assertLessEqual(accepted, most + 1e-6)
        batch = loads.batch(
            mix, shape.capacity_gb, 1.1, np.random.default_rng(2)
        )
        _, its = simulated(shape, mix)
        hosts, _ = its.run(batch)
        most = bounds.of_batch(mix, batch, shape, 5)
        for of_policy in hosts:
            accepted = gb[batch.kinds[of_policy >= 0]].sum()
            self.assertLessEqual(accepted, most + 1e-6)


class RaceTest(testtools.TestCase):
    def raced(self, hosts, workers):
        shape = fleets.equal(hosts, disks=1, disk_gb=100)
        its = simulation.Simulation(
            shape,
            (flavor(1, 100),),
            [one for one in policies.PEERS if one.name == 'first_fit'],
            np.random.default_rng(1),
        )
        before = its.snapshot()
        (found,) = race.race(its, workers, 1, np.random.default_rng(1))
        for old, new in zip(before, its.snapshot(), strict=True):
            np.testing.assert_array_equal(old, new)
        return found

    def test_claims_that_fail_go_to_the_next_host(self):
        self.assertEqual((1, 0, 0), self.raced(2, 1))
        self.assertEqual((2, 1, 0), self.raced(2, 2))
        self.assertEqual((3, 2, 0), self.raced(3, 3))

    def test_claims_without_a_host_are_lost(self):
        self.assertEqual((3, 2, 1), self.raced(2, 3))
        # a list of one host has no second one to fail
        self.assertEqual((3, 2, 2), self.raced(1, 3))


class FiguresTest(testtools.TestCase):
    def test_of_policy(self):
        shape = fleets.equal(2, disks=2, disk_gb=1000)
        mix = (flavor(1, 100), flavor(1, 300))
        stream = arrivals(
            (0.0, 0, 9.0), (1.0, 0, 9.0), (1.5, 1, 9.0), (2.0, 1, 9.0)
        )
        hosts = np.array([[0, 0, 1, simulation.REFUSED]])
        state = simulation.Snapshot(
            np.array([[[500, 500], [500, 500]]]),
            np.array([[[3, 0], [1, 0]]]),
            np.zeros((1, 2, 2)),
            np.array([[[1, 0, 0], [7, 0, 0]]]),
        )
        run = figures.of_policy(mix, shape, stream, hosts, [state], 0, 1.0)
        self.assertAlmostEqual(400 / 700, run.gib)
        self.assertAlmostEqual(2 / 3, run.requests)
        self.assertEqual(0.5, run.widest)
        self.assertEqual(1.0, run.wide)
        # three vdisks with two others each, and one alone
        self.assertEqual(6 / 4, run.neighbours)
        self.assertEqual(2, run.neighbours_p95)
        self.assertEqual(0, run.gib_cv)
        # 511 and 505 of 512 vCPUs
        self.assertAlmostEqual(3 / 508, run.vcpus_cv)


class MeasureTest(testtools.TestCase):
    def test_neighbours_are_those_of_the_large_fleet_too(self):
        figures = {
            f'{name}_neighbours_{figure}': value
            for name, value in (('load_90', 0.9), ('large_90', 1.1))
            for figure in ('ratio', 'to_peer')
        }
        figures['static_90_default_of_milp'] = 1.0
        for other in ('today', 'random', 'topolvm'):
            figures[f'media_80_gain_over_{other}'] = 0.0
        placement_quality.extremes(placement_quality.FULL, figures)
        self.assertEqual(1.1, figures['neighbours_ratio_most'])
        self.assertEqual(1.1, figures['neighbours_to_peer_most'])

    def test_every_goal_is_measured(self):
        size = placement_quality.QUICK._replace(
            hosts=6,
            load_hosts=6,
            seeds=1,
            until=0.6,
            large_hosts=6,
            large_until=0.6,
            batch_hosts=2,
            batch_seconds=1,
            rounds=1,
            mixes=2,
        )
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            found = placement_quality.measure(size)
        for goal in placement_quality.goals():
            self.assertIsNotNone(found[goal.figure], goal)
