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

"""The load of diskplacer-manage sizing against a PostgreSQL of its own."""

import glob
import json
import os
import random
import shutil
import subprocess
import sys

import fixtures
import testtools

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing.key_value import latencies
from diskplacer_measure.sizing.key_value import load
from diskplacer_measure.sizing.key_value import mixes
from diskplacer_measure.sizing.key_value import postgresql

TABLE = 'diskplacer_key_value'

# The user of Debian's package: PostgreSQL refuses to run as root.
USER = 'postgres'


class Server(fixtures.Fixture):
    """A PostgreSQL on a socket in a temporary directory."""

    def _setUp(self):
        directory = self.useFixture(fixtures.TempDir()).path
        self._data = os.path.join(directory, 'data')
        self._owner = {'user': USER} if os.geteuid() == 0 else {}
        if self._owner:
            shutil.chown(directory, USER)
        self._run('initdb', '--auth=trust', '--username=test', '--no-sync')
        options = f"-k {directory} -c listen_addresses='' -c fsync=off"
        self._run('pg_ctl', '-w', '-o', options, '-l', 'log', 'start')
        self.addCleanup(self.stop)
        self.url = f'postgresql:///postgres?host={directory}&user=test'

    def stop(self):
        """Stop it at once, as a machine does that fails."""
        if os.path.exists(os.path.join(self._data, 'postmaster.pid')):
            self._run('pg_ctl', '-w', '-m', 'immediate', 'stop')

    def _run(self, program, *arguments):
        # the newest, where Debian has it, or in the path
        (*_, found) = [
            program,
            *sorted(glob.glob(f'/usr/lib/postgresql/*/bin/{program}')),
        ]
        subprocess.run(
            [found, '-D', self._data, *arguments],
            cwd=os.path.dirname(self._data),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            **self._owner,
        )


class PostgresqlTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.server = self.useFixture(Server())
        self.reported = []

    def connect(self):
        store = postgresql.connect(self.server.url)
        self.addCleanup(store.close)
        return store

    def fill(self, records, report=None):
        self.connect().fill(records, report or self.reported.append)

    def one(self, query):
        return self.connect()._one(query)

    def assert_error(self, text, function, *arguments):
        error = self.assertRaises(errors.SizingError, function, *arguments)
        self.assertIn(text, str(error))

    def run_mix(self, name, **changes):
        plan = load.Plan(
            reads=mixes.READS[name],
            records=self.connect().describe().records,
            operations=changes.pop('operations', 600),
            clients=changes.pop('clients', 2),
            seed=1,
        )
        connect = changes.pop('connect', self.connect)
        return load.run(plan, connect, self.reported.append)

    def test_records_are_those_of_ycsb(self):
        self.fill(1500)
        self.assertEqual(1500, self.reported[-1])
        found = self.connect().describe()
        self.assertEqual(1500, found.records)
        self.assertTrue(1.1e6 < 1500 * 1000 * 1.1 <= found.data_bytes < 2.5e6)
        self.assertRegex(found.store, r'^PostgreSQL \d+')
        self.assertEqual('on', found.settings['synchronous_commit'])
        lengths = ' + '.join(f'length(field{n})' for n in range(10))
        self.assertEqual(
            (1500, 1000, 1000, 15_000),
            (
                self.one(f'SELECT count(*) FROM {TABLE}'),
                self.one(f'SELECT min({lengths}) FROM {TABLE}'),
                self.one(f'SELECT max({lengths}) FROM {TABLE}'),
                self.one(
                    'SELECT count(DISTINCT value) FROM (SELECT '
                    'unnest(ARRAY['
                    + ', '.join(f'field{n}' for n in range(10))
                    + f']) AS value FROM {TABLE}) AS fields'
                ),
            ),
        )

    def test_operations_reach_the_store(self):
        self.fill(500)
        before = self.one(
            f"SELECT md5(string_agg(t::text, '')) FROM {TABLE} t"
        )
        for name in 'cab':
            result = self.run_mix(name)
            done = {
                kind: one.operations for kind, one in result.latencies.items()
            }
            self.assertEqual(600, sum(done.values()))
            after = self.one(
                f"SELECT md5(string_agg(t::text, '')) FROM {TABLE} t"
            )
            self.assertEqual(name == 'c', before == after)
            before = after
            for one in result.latencies.values():
                self.assertIsInstance(one, latencies.Latencies)
                self.assertGreater(one.mean, 0)
                # two clients, whose operations are all of their time
                self.assertLess(one.mean * one.operations, 2 * result.seconds)
        self.assertEqual(500, self.one(f'SELECT count(*) FROM {TABLE}'))

    def test_an_update_writes_one_field(self):
        self.fill(3)
        fields = [f'field{n}' for n in range(10)]
        query = f"SELECT concat_ws(',', {', '.join(fields)}) FROM {TABLE} "
        before = self.one(query + 'WHERE key = 1').split(',')
        self.connect().update(1, random.Random(2))
        after = self.one(query + 'WHERE key = 1').split(',')
        changed = [
            new for old, new in zip(before, after, strict=True) if old != new
        ]
        self.assertEqual([100], list(map(len, changed)))

    def test_an_interrupted_fill_leaves_nothing(self):
        def stop(done):
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.fill, 10, stop)
        self.assert_error('no table', self.connect().describe)

    def test_an_interrupted_fill_leaves_the_table_before(self):
        self.fill(7)

        def stop(done):
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.fill, 10, stop)
        self.assertEqual(7, self.connect().describe().records)

    def test_records_that_are_missing(self):
        self.fill(5)
        store = self.connect()
        self.assert_error('record 5 of the table', store.read, 5)
        self.assert_error(
            'record 9 of the table', store.update, 9, random.Random(1)
        )

    def test_an_empty_table(self):
        self.fill(1)
        self.connect()._connection.execute(f'TRUNCATE {TABLE}')
        self.assert_error('is empty', self.connect().describe)

    def test_a_server_that_stops(self):
        self.fill(100)
        connections = []

        def connect():
            connections.append(self.connect())
            if len(connections) == 2:
                self.server.stop()
            return connections[-1]

        self.assert_error(
            'PostgreSQL cannot',
            lambda: self.run_mix('a', connect=connect, operations=100_000),
        )

    def test_no_server(self):
        self.server.stop()
        self.assert_error('PostgreSQL cannot be connected to', self.connect)

    def manage(self, *arguments):
        """Run the command; returns its exit status and output."""
        empty = self.useFixture(fixtures.TempDir()).join('nova.conf')
        with open(empty, 'w', encoding='utf-8'):
            pass
        done = subprocess.run(
            [
                sys.executable, '-c',
                'import sys; from nova_diskplacer.cmd import manage;'
                'sys.exit(manage.main())',
                '--config-file', empty, 'sizing', 'load', self.server.url,
                *arguments,
            ],
            capture_output=True,
            text=True,
        )  # fmt: skip
        return done.returncode, done.stdout or done.stderr

    def test_command(self):
        self.assertEqual((0, ''), self.manage('--prepare', '400'))
        arguments = ('--workload', 'a', '--operations', '300')
        status, output = self.manage(*arguments, '--format', 'json')
        found = json.loads(output)
        self.assertEqual(
            (0, 'a', 300, 400, 1),
            (
                status,
                found['workload'],
                found['operations'],
                found['records'],
                found['clients'],
            ),
        )
        self.assertGreater(found['seconds'], 0)
        self.assertEqual({'read', 'update'}, set(found['latencies']))
        status, output = self.manage(*arguments)
        self.assertEqual(0, status)
        self.assertIn('400 records', output)
        self.assertIn('| update ', output)
        self.assertEqual((0, ''), self.manage('--remove'))
        status, output = self.manage(*arguments)
        self.assertEqual(1, status)
        self.assertIn('make it with --prepare', output)
