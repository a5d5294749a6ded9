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

"""The script that measures, by each shell that images have."""

import os
import re
import shutil
import subprocess
import time

import ddt
import fixtures
import testtools

from diskplacer_measure.sweep.measure import workload
from tests.unit.diskplacer_measure.sweep import samples

TOKEN = 'token'
SHELLS = [
    command
    for command in (['dash'], ['busybox', 'sh'], ['bash', '--posix'])
    if shutil.which(command[0])
]

# A fio that writes down its arguments, and prints a line for each thread: the
# fields of fio's terse format, version 3.
FIO = r"""#!/bin/sh
echo "$*" >> "$LOG"
if [ -n "$FAIL" ]; then
    echo "fio: $FAIL"
    exit 1
fi
jobs=1 column=6
for argument in "$@"; do
    case $argument in
    --numjobs=*) jobs=${argument#*=} ;;
    --rw=write) column=47 ;;
    esac
done
awk -v jobs="$jobs" -v column="$column" 'BEGIN {
    print "fio: a note"
    for (job = 1; job <= jobs; job++) {
        for (index_ = 1; index_ <= 130; index_++) {
            value = 0
            if (index_ == 1) value = 3
            if (index_ == column) value = 1000 * job
            if (index_ == column + 3) value = 500
            if (index_ == column + 10) value = "1500.5"
            if (index_ == 88) value = "2.5%"
            if (index_ == 89) value = "7.5%"
            if (index_ == 90) value = 40
            printf "%s%s", (index_ > 1 ? ";" : ""), value
        }
        print ""
    }
}'
"""


class ScriptTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.log = os.path.join(self.directory, 'log')
        bin_ = os.path.join(self.directory, 'bin')
        os.mkdir(bin_)
        with open(os.path.join(bin_, 'fio'), 'w') as stream:
            stream.write(FIO)
        os.chmod(os.path.join(bin_, 'fio'), 0o755)
        self.environment = {
            'PATH': f'{bin_}:/usr/bin:/bin',
            'LOG': self.log,
            'FAIL': '',
        }

    def script(self, lines, **values):
        options = {
            'token': TOKEN,
            'mib': 64,
            'kib': 64,
            'seconds': 3,
            'device': '/measured file',
        }
        return workload.script(lines, **{**options, **values})

    def execute(self, shell, script):
        return subprocess.run(
            [*shell, '-s'],
            input=script,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def run_script(self, shell, lines, **values):
        done = self.execute(shell, self.script(lines, **values))
        return workload.parse(done.stdout, TOKEN)

    def logged(self):
        with open(self.log) as stream:
            return stream.read().splitlines()


@ddt.ddt
class BareMetalTest(ScriptTestCase):
    @ddt.data(*SHELLS)
    def test_a_cell(self, shell):
        cell = samples.make_cell(jobs=2, operation='write', depth=8)
        before = int(time.time())
        found = self.run_script(shell, [workload.line('7.1', cell, 0)])
        self.assertEqual('', found.error)
        self.assertEqual({}, found.failed)
        self.assertTrue(found.done)
        one = found.measured['7.1']
        self.assertEqual((1000, 2000), one.kib)
        self.assertEqual((500, 500), one.ms)
        self.assertEqual(1500.5, one.latency_us)
        self.assertAlmostEqual(0.1, one.executing)
        self.assertEqual(80, one.switches)
        self.assertTrue(before <= one.began <= time.time())
        self.assertTrue(0 <= one.seconds < 60)
        self.assertEqual(
            {'user', 'system', 'idle', 'iowait', 'steal'}, set(one.cpu)
        )
        self.assertEqual(
            [
                '--name=sweep --thread --filename=/measured file '
                '--ioengine=libaio --direct=1 --iodepth=8 --rw=write '
                '--bs=64k --size=32768k --offset_increment=32768k '
                '--numjobs=2 --runtime=3 --end_fsync=1 '
                '--allow_file_create=0 '
                '--output-format=terse --terse-version=3'
            ],
            self.logged(),
        )

    @ddt.data(
        ('sync_direct', '--ioengine=psync --direct=1'),
        ('sync_cached', '--ioengine=psync --direct=0'),
        ('async', '--ioengine=libaio --direct=1 --iodepth=32'),
    )
    @ddt.unpack
    def test_engines(self, engine, options):
        for shell in SHELLS:
            cell = samples.make_cell(engine=engine)
            found = self.run_script(shell, [workload.line('0.0', cell, 0)])
            self.assertEqual(['0.0'], list(found.measured))
            self.assertIn(f' {options} --rw=read ', self.logged()[-1])

    @ddt.data(3, 5, 7)
    def test_threads_get_whole_requests(self, jobs):
        cell = samples.make_cell(jobs=jobs)
        self.run_script(SHELLS[0], [workload.line('0.0', cell, 0)], mib=10)
        (size,) = re.findall(r' --size=(\d+)k', self.logged()[0])
        self.assertEqual(0, int(size) % 64)
        self.assertTrue(10 * 1024 - 64 * jobs < int(size) * jobs <= 10 * 1024)

    @ddt.data(*SHELLS)
    def test_fio_is_launched_by_a_command(self, shell):
        cell = samples.make_cell()
        self.environment['FAIL'] = 'not the one to call'
        found = self.run_script(
            shell,
            [workload.line('0.0', cell, 0)],
            launch='env FAIL= LOG=/dev/null',
        )
        self.assertEqual(['0.0'], list(found.measured))

    @ddt.data(*SHELLS)
    def test_fio_fails(self, shell):
        self.environment['FAIL'] = 'engine libaio not loadable'
        cell = samples.make_cell()
        found = self.run_script(
            shell,
            [workload.line(id_, cell, 0) for id_ in ('0.0', '1.0')],
        )
        message = 'fio: fio: engine libaio not loadable'
        self.assertEqual({'0.0': message, '1.0': message}, found.failed)
        self.assertEqual({}, found.measured)

    @ddt.data(*SHELLS)
    def test_a_thread_fails(self, shell):
        self.use_fio(FIO.replace('== 88', '== 5) value = 5; if (index_ == 88'))
        cell = samples.make_cell()
        found = self.run_script(shell, [workload.line('0.0', cell, 0)])
        self.assertEqual({}, found.measured)
        self.assertEqual(['0.0'], list(found.failed))

    def use_fio(self, text):
        with open(os.path.join(self.directory, 'bin', 'fio'), 'w') as stream:
            stream.write(text)

    @ddt.data(*SHELLS)
    def test_slots(self, shell):
        start = int(time.time()) + 2
        cell = samples.make_cell()
        found = self.run_script(
            shell,
            [
                workload.line('0.0', cell, start - 60),
                workload.line('1.0', cell, start),
                workload.line('2.0', cell, start + 1),
            ],
        )
        self.assertEqual(
            {'0.0': 'a server came to the cell too late'}, found.failed
        )
        self.assertEqual(
            {'1.0': start, '2.0': start + 1},
            {id_: one.began for id_, one in found.measured.items()},
        )

    @ddt.data(*SHELLS)
    def test_without_fio(self, shell):
        os.unlink(os.path.join(self.directory, 'bin', 'fio'))
        tools = os.path.join(self.directory, 'tools')
        os.mkdir(tools)
        for name in ('date', 'cat'):
            os.symlink(shutil.which(name), os.path.join(tools, name))
        shell = [shutil.which(shell[0]), *shell[1:]]
        self.environment['PATH'] = tools
        found = self.run_script(
            shell, [workload.line('0.0', samples.make_cell(), 0)]
        )
        self.assertEqual('fio is not installed', found.error)
        self.assertEqual({}, found.measured)


class ServerTestCase(ScriptTestCase):
    """The script is in a server, whose directories the test makes."""

    def setUp(self):
        super().setUp()
        for name in ('sys/block', 'proc/sys/kernel', 'proc/sys/vm', 'dev'):
            os.makedirs(os.path.join(self.directory, name))
        self.put('proc/mounts', '/dev/vda / ext4 rw 0 0\n')
        self.put('proc/stat', 'cpu  1 2 3 4 5 6 7 8 9 10\n')
        self.put('proc/uptime', '100.25 200.00\n')
        self.put('dev/console', '')
        self.add_disk('vda', 2 << 30)
        self.add_disk('vdb', 1 << 30)

    def put(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as stream:
            stream.write(text)

    def get(self, name):
        with open(os.path.join(self.directory, name)) as stream:
            return stream.read()

    def add_disk(self, name, size, *partitions):
        self.put(f'sys/block/{name}/size', f'{size // 512}\n')
        self.put(f'sys/block/{name}/queue/scheduler', '[none]\n')
        self.put(f'sys/block/{name}/queue/read_ahead_kb', '128\n')
        for partition in partitions:
            self.put(f'sys/block/{name}/{partition}/start', '2048\n')

    def run_server(self, shell, cell, **values):
        script = self.script(
            [workload.line('0.0', cell, 0)],
            device='',
            size_bytes=1 << 30,
            **values,
        )
        # all but the files that the shell itself needs
        script = re.sub(
            r'(?<!\w)/(?=sys/block|proc/|dev/\$|dev/console)',
            f'{self.directory}/',
            script,
        )
        # a file is no character device
        script = script.replace('[ -c ', '[ -f ')
        done = self.execute(shell, script)
        self.addDetail('stderr', testtools.content.text_content(done.stderr))
        # a file has only what was written last
        return self.get('dev/console')


@ddt.ddt
class ServerTest(ServerTestCase):
    @ddt.data(*SHELLS)
    def test_the_vdisk_is_found_filled_and_measured(self, shell):
        # of the size of the vdisk, but with partitions or in use
        self.add_disk('vdc', 1 << 30, 'vdc1')
        self.add_disk('vdd', 1 << 30)
        self.put('proc/mounts', f'{self.directory}/dev/vdd / ext4 rw 0 0\n')
        cell = samples.make_cell(1, read_ahead_kb=4096)
        self.run_server(shell, cell)
        fill, measure = self.logged()
        vdisk = f'--filename={self.directory}/dev/vdb '
        self.assertIn(vdisk, fill)
        self.assertIn('--rw=write --bs=1024k --size=64m --direct=1', fill)
        self.assertIn(vdisk, measure)
        self.assertEqual('1\n', self.get('proc/sys/kernel/printk'))
        self.assertEqual(
            '4096\n', self.get('sys/block/vdb/queue/read_ahead_kb')
        )
        self.assertEqual(
            '128\n', self.get('sys/block/vda/queue/read_ahead_kb')
        )

    @ddt.data(*SHELLS)
    def test_only_cached_cells_drop_caches(self, shell):
        self.run_server(shell, samples.make_cell(1))
        self.assertFalse(
            os.path.exists(f'{self.directory}/proc/sys/vm/drop_caches')
        )
        self.run_server(shell, samples.make_cell(1, engine='sync_cached'))
        self.assertEqual('3\n', self.get('proc/sys/vm/drop_caches'))

    @ddt.data(*SHELLS)
    def test_no_vdisk(self, shell):
        shutil.rmtree(f'{self.directory}/sys/block/vdb')
        printed = self.run_server(shell, samples.make_cell(1))
        self.assertEqual(
            'no disk has the size of the vdisk, 1073741824 bytes',
            workload.parse(printed, TOKEN).error,
        )

    @ddt.data(*SHELLS)
    def test_two_that_may_be_the_vdisk(self, shell):
        self.add_disk('vdc', 1 << 30)
        printed = self.run_server(shell, samples.make_cell(1))
        self.assertIn(
            'both have the size of the vdisk',
            workload.parse(printed, TOKEN).error,
        )

    @ddt.data(*SHELLS)
    def test_fio_cannot_fill_the_vdisk(self, shell):
        self.environment['FAIL'] = 'Input/output error'
        printed = self.run_server(shell, samples.make_cell(1))
        self.assertEqual(
            'fio: fio: Input/output error',
            workload.parse(printed, TOKEN).error,
        )


class QueueTest(ServerTestCase):
    def test_a_scheduler_that_the_server_lacks(self):
        # the kernel of the server refuses what is written
        script = self.script([], device='/dev/vdb').split('server=false')[0]
        script = script.replace('/sys/', f'{self.directory}/sys/')
        for shown, wanted, status in (
            ('[none] mq-deadline', 'none', 0),
            ('[none] mq-deadline', 'mq-deadline', 1),
            ('mq-deadline', 'mq-deadline', 0),
            ('none', 'bfq', 1),
        ):
            self.put('sys/block/vdb/queue/scheduler', shown)
            os.chmod(f'{self.directory}/sys/block/vdb/queue/scheduler', 0o444)
            for shell in SHELLS:
                done = self.execute(
                    shell,
                    script.replace('> "$file"', '> /dev/null')
                    + f'set_queue scheduler {wanted}; echo $?',
                )
                self.assertEqual(f'{status}\n', done.stdout)
