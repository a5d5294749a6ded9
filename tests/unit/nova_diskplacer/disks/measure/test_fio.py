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

import json
import os
import stat
from unittest import mock

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks.measure import fio
from nova_diskplacer.disks.measure import io_model


def make_output(way, bps, iops):
    figures = {'bw_bytes': bps, 'iops': iops}
    return json.dumps({'jobs': [{way: figures}]})


class FioTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.cgroup = os.path.join(self.directory, 'cgroup')
        os.mkdir(self.cgroup)
        with open(os.path.join(self.cgroup, 'cgroup.procs'), 'w'):
            pass
        self.useFixture(
            fixtures.EnvironmentVariable(
                'PATH', f'{self.directory}:{os.environ["PATH"]}'
            )
        )

    def fake_fio(self, script):
        """Replace fio by a script."""
        path = os.path.join(self.directory, 'fio')
        with open(path, 'w') as stream:
            stream.write('#!/bin/sh\n' + script)
        os.chmod(path, stat.S_IRWXU)

    def test_loads(self):
        for medium in ('hdd', 'ssd'):
            loads = fio.loads_for(medium)
            self.assertEqual({'latency', *io_model.COEFFICIENTS}, set(loads))
            for name, load in loads.items():
                self.assertEqual('bps' in name, load.unit == 'MB/s')
                self.assertEqual('w' == name[0], 'write' in load.rw)
                self.assertEqual(
                    'seq' in name or 'bps' in name, 'rand' not in load.rw
                )

    def test_measure(self):
        self.fake_fio(
            f'echo "$@" > {self.directory}/arguments\n'
            'echo note: something\n'
            f"echo '{make_output('read', 2.5e6, 600)}'\n"
        )
        load = fio.loads_for('hdd')['rrandiops']
        runner = fio.Fio('/dev/x', 1 << 30, self.cgroup)
        self.assertEqual(fio.Result(2.5e6, 600), runner.measure(load, 7))
        with open(os.path.join(self.directory, 'arguments')) as stream:
            arguments = stream.read().split()
        for one in (
            '--filename=/dev/x', '--size=1073741824', '--direct=1',
            '--rw=randread', '--bs=4096', '--iodepth=32', '--runtime=7',
        ):  # fmt: skip
            self.assertIn(one, arguments)
        with open(os.path.join(self.cgroup, 'cgroup.procs')) as stream:
            self.assertGreater(int(stream.read()), 1)

    def test_fio_fails(self):
        self.fake_fio('echo no space >&2; exit 3')
        runner = fio.Fio('/dev/x', 1 << 30)
        error = self.assertRaises(exception.DiskError, runner.fill)
        self.assertEqual('fio ended with 3: no space', str(error))

    def test_fio_is_missing(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', self.directory))
        runner = fio.Fio('/dev/x', 1 << 30)
        self.assertRaises(exception.DiskError, runner.fill)

    def test_fio_ends_with_the_caller(self):
        self.fake_fio('sleep 60')
        runner = fio.Fio('/dev/x', 1 << 30)
        started = []
        real = fio.subprocess.Popen

        def start(*args, **kwargs):
            started.append(real(*args, **kwargs))
            return started[0]

        with (
            mock.patch.object(fio.subprocess, 'Popen', start),
            mock.patch.object(
                fio, '_join_cgroup', side_effect=KeyboardInterrupt
            ),
        ):
            self.assertRaises(KeyboardInterrupt, runner.fill)
        self.assertIsNotNone(started[0].poll())

    def test_parse(self):
        self.assertEqual(
            fio.Result(1.0, 2.0),
            fio.parse(make_output('write', 1, 2), 'randwrite'),
        )
        for text in (
            '',
            '{',
            '[]',
            '{"jobs": []}',
            make_output('write', 1, 2),
        ):
            error = self.assertRaises(
                exception.DiskError, fio.parse, text, 'read'
            )
            self.assertIn('report of fio cannot be read', str(error))
        error = self.assertRaises(
            exception.DiskError, fio.parse, make_output('read', 0, 0), 'read'
        )
        self.assertIn('--seconds', str(error))
