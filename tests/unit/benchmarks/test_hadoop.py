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

import pathlib
from xml.etree import ElementTree

import fixtures
import testtools

import _hadoop_cluster
import _hadoop_meter
import hadoop as benchmark


def run(sort_s, peak=1.0, processors=0.5):
    return benchmark.Run(10.0, sort_s, peak, peak / 2, processors)


class PlaceTest(testtools.TestCase):
    def test_mappings(self):
        for name, count in benchmark.LAYOUTS.values():
            found = benchmark.place(name, count)
            self.assertEqual(count, len(found))
            disks = count if name == 'round_robin' else 1
            self.assertEqual(disks, len(set(found)))


class FiguresTest(testtools.TestCase):
    def test_figures(self):
        """Each round has a ratio of its own, as the machine may change."""
        found = benchmark.figures_of(
            {
                'round_robin_1': [run(100), run(200)],
                'round_robin_2': [run(80), run(140)],
                'round_robin_8': [run(20, 0.25), run(60, 0.15)],
                'consolidated_8': [run(100), run(240)],
                'striped_8': [run(40), run(80)],
            }
        )
        self.assertEqual(150.0, found['round_robin_1_sort_s'])
        self.assertEqual(0.25, found['less_time_1_to_2'])
        self.assertEqual(0.75, found['less_time_1_to_8'])
        self.assertLess(found['less_time_1_to_8_low'], 0.75)
        self.assertEqual(0.225, found['round_robin_to_consolidated_8'])
        self.assertEqual(0.625, found['round_robin_to_striped_8'])
        self.assertEqual(0.2, found['round_robin_8_peak'])
        self.assertNotIn('less_time_6_to_8', found)
        met = [goal.met(found) for goal in benchmark.goals()]
        self.assertEqual([False, True, True], met)

    def test_processors_are_compared_by_round(self):
        runs = {
            'round_robin_1': [run(9, 1.0, 0.2), run(9, 1.0, 0.4)],
            'round_robin_8': [run(9, 1.0, 0.3), run(9, 1.0, 0.6)],
        }
        name = 'round_robin_8_to_round_robin_1_processors'
        found = benchmark.figures_of(runs)
        for end in ('', '_low', '_high'):
            self.assertEqual(1.5, found[f'{name}{end}'])
        runs['round_robin_8'].pop()
        self.assertNotIn(name, benchmark.figures_of(runs))


class MeterTest(testtools.TestCase):
    def test_utilization(self):
        jiffies = {'user': 900, 'system': 100, 'idle': 800, 'iowait': 200}
        before = _hadoop_meter._Counters(100.0, (5.0, 7.0), jiffies)
        # 300 of 400 are not idle
        later = {'user': 1100, 'system': 200, 'idle': 860, 'iowait': 240}
        now = _hadoop_meter._Counters(105.0, (10.5, 8.0), later)
        found = _hadoop_meter._between(before, now)
        # a disk has requests all the time at most
        self.assertEqual((0.6, 0.75), found)


class ClusterTest(testtools.TestCase):
    def test_configuration(self):
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        vdisks = [top / f'volume-{number}' for number in range(2)]
        for path in (top / 'work', *vdisks):
            path.mkdir()
        job = _hadoop_cluster.Job(64, maps=4)
        _hadoop_cluster.Cluster(top / 'work', vdisks, job)._configure()
        found = {
            one.findtext('name'): one.findtext('value')
            for path in (top / 'work' / 'conf').glob('*.xml')
            for one in ElementTree.parse(path).iter('property')
        }
        for name, directory in (
            ('dfs.datanode.data.dir', 'hdfs'),
            ('yarn.nodemanager.local-dirs', 'intermediate'),
        ):
            paths = [str(path / directory) for path in vdisks]
            self.assertEqual(','.join(paths), found[name])
            self.assertTrue(
                all(map(pathlib.Path.is_dir, map(pathlib.Path, paths)))
            )
        self.assertEqual(
            str(16 << 20), found['mapreduce.randomwriter.bytespermap']
        )
        addresses = [
            value for value in found.values() if value.startswith('localhost:')
        ]
        self.assertEqual(len(addresses), len(set(addresses)))

    def test_what_has_ended_is_told(self):
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        cluster = _hadoop_cluster.Cluster(top, [], _hadoop_cluster.Job(1))
        java = top / 'bin' / 'java'
        java.parent.mkdir()
        java.write_text('#!/bin/sh\necho no room\nexit 1\n')
        java.chmod(0o755)
        self.patch(_hadoop_cluster, '_java_home', lambda: top)
        error = self.assertRaises(
            _hadoop_cluster.HadoopError, cluster.run, 'Sort'
        )
        self.assertEqual('Sort ended by 1: no room\n', str(error))
