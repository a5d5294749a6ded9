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

import collections
import random
import threading

import ddt
import testtools

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing.key_value import load
from diskplacer_measure.sizing.key_value import mixes


class Stores:
    """A store in memory, and the connections to it."""

    def __init__(self, fail_at=None):
        self.done = []
        self.open = 0
        self.most = 0
        self._fail_at = fail_at
        self._lock = threading.Lock()

    def connect(self):
        self.open += 1
        self.most = max(self.most, self.open)
        return self

    def close(self):
        self.open -= 1

    def read(self, key):
        self._do('read', key)

    def update(self, key, source):
        source.random()
        self._do('update', key)

    def _do(self, kind, key):
        with self._lock:
            if self._fail_at == len(self.done):
                self._fail_at = None
                raise errors.SizingError('no space')
            self.done.append((kind, key))


def plan(**changes):
    fields = {
        'reads': mixes.READS['a'],
        'records': 100,
        'operations': 1000,
        'clients': 1,
        'seed': 0,
    }
    return load.Plan(**fields | changes)


@ddt.ddt
class MixTest(testtools.TestCase):
    @ddt.data(('a', 0.5), ('b', 0.95), ('c', 1))
    @ddt.unpack
    def test_parts(self, name, reads):
        """P1 Table II: 50, 95 and 100 % of reads."""
        made = list(
            mixes.operations(mixes.READS[name], 10, 20_000, random.Random(1))
        )
        kinds = collections.Counter(kind for kind, _ in made)
        self.assertEqual(20_000, sum(kinds.values()))
        self.assertAlmostEqual(reads, kinds['read'] / 20_000, delta=0.015)
        self.assertEqual(reads == 1, 'update' not in kinds)

    def test_keys_of_both_kinds_are_zipfian(self):
        keys = collections.defaultdict(collections.Counter)
        for kind, key in mixes.operations(
            mixes.READS['a'], 1000, 20_000, random.Random(1)
        ):
            keys[kind][key] += 1
        for counts in keys.values():
            ((_, most),) = counts.most_common(1)
            self.assertGreater(most, 0.03 * sum(counts.values()))


@ddt.ddt
class RunTest(testtools.TestCase):
    def run_plan(self, stores, **changes):
        reported = []
        result = load.run(plan(**changes), stores.connect, reported.append)
        self.assertEqual(0, stores.open)
        return result, reported

    @ddt.data(1, 3)
    def test_all_operations_are_made(self, clients):
        stores = Stores()
        result, reported = self.run_plan(stores, clients=clients)
        self.assertEqual(clients, stores.most)
        self.assertEqual(1000, len(stores.done))
        self.assertEqual(1000, reported[-1])
        counts = collections.Counter(kind for kind, _ in stores.done)
        self.assertEqual(
            counts,
            {kind: one.operations for kind, one in result.latencies.items()},
        )
        self.assertGreater(result.seconds, 0)
        self.assertGreater(result.client_cpu, 0)

    def test_kinds_without_operations(self):
        result, _ = self.run_plan(Stores(), reads=mixes.READS['c'])
        self.assertEqual({'read'}, set(result.latencies))

    def test_a_seed_repeats(self):
        done = []
        for seed in (1, 1, 2):
            stores = Stores()
            self.run_plan(stores, seed=seed)
            done.append(stores.done)
        self.assertEqual(done[0], done[1])
        self.assertNotEqual(done[0], done[2])

    def test_clients_differ(self):
        stores = Stores()
        self.run_plan(stores, clients=2, reads=mixes.READS['c'], records=10**9)
        counts = collections.Counter(key for _, key in stores.done)
        # clients of one seed would each do the same
        self.assertGreater(sum(n % 2 for n in counts.values()), 100)

    @ddt.data(1, 4)
    def test_a_store_that_fails_once(self, clients):
        """The other clients stop, long before they have done all."""
        stores = Stores(fail_at=50)
        error = self.assertRaises(
            errors.SizingError,
            self.run_plan,
            stores,
            clients=clients,
            operations=200_000,
        )
        self.assertEqual('no space', str(error))
        self.assertEqual(0, stores.open)
        self.assertLess(len(stores.done), 100_000)

    def test_a_client_that_cannot_connect(self):
        stores = Stores()
        connect, made = stores.connect, []

        def fail_third():
            if len(made) == 2:
                raise errors.SizingError('too many')
            made.append(1)
            return connect()

        self.assertRaises(
            errors.SizingError,
            load.run,
            plan(clients=3),
            fail_third,
            made.append,
        )
        self.assertEqual((0, []), (stores.open, stores.done))

    def test_fewer_operations_than_clients(self):
        error = self.assertRaises(
            errors.SizingError,
            self.run_plan,
            Stores(),
            operations=2,
            clients=3,
        )
        self.assertIn('--operations 2 is below --clients 3', str(error))
