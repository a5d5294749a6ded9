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
import pathlib
import subprocess
import time

import testtools

from tests import shell
from tests.testbed import bed
from tools.testbed import udev

GIB = 2**30
# How often throughput is measured, until that is right: not while the machine
# that the bed is on has stalled.
MEASURINGS = 10
SYS = pathlib.Path('/sys')
CGROUPS = SYS / 'fs/cgroup'


def device(index):
    return f'/dev/disk/by-id/virtio-disk{index}'


def block(index):
    """Return a disk's directory in sysfs."""
    return SYS / 'block' / pathlib.Path(device(index)).resolve().name


def fio(index, rw, bs, depth, cgroup=CGROUPS, offset='0'):
    """Start to load a disk for some seconds."""
    return subprocess.Popen(
        [
            'sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"', cgroup,
            'fio', f'--name={rw}', f'--filename={device(index)}',
            f'--rw={rw}', f'--bs={bs}', f'--iodepth={depth}', '--direct=1',
            '--ioengine=libaio', '--time_based', '--ramp_time=3',
            f'--offset={offset}',
            '--runtime=8', '--output-format=json',
        ],
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def measured(process, direction):
    """Return bytes and requests per second."""
    printed, _ = process.communicate()
    figures = json.loads(printed)['jobs'][0][direction]
    return figures['bw_bytes'], figures['iops']


class TestBed(testtools.TestCase):
    def test_nodes(self):
        for node in (0, 1):
            path = SYS / f'devices/system/node/node{node}'
            self.assertEqual(str(node), (path / 'cpulist').read_text().strip())
            memory = (path / 'meminfo').read_text().split('MemTotal:')[1]
            self.assertGreater(int(memory.split()[0]), 1 << 20)
        self.assertEqual(
            '0-1', (SYS / 'devices/system/node/online').read_text().strip()
        )

    def test_disks(self):
        for index, disk in enumerate(bed.DISKS):
            node = block(index) / 'device' / '..' / 'numa_node'
            self.assertEqual(disk.node, int(node.read_text()))
            sectors = int((block(index) / 'size').read_text())
            self.assertEqual(disk.gib * GIB, sectors * 512)

    def test_throttle(self):
        for _ in range(MEASURINGS):
            # at once: each has its own limit, wherever the others are
            loads = [
                fio(0, 'read', '1M', 4),
                fio(1, 'write', '1M', 4),
                fio(2, 'randread', '4k', 64),
            ]
            read, _ = measured(loads[0], 'read')
            written, _ = measured(loads[1], 'write')
            _, requests = measured(loads[2], 'read')
            shares = read / 20e6, written / 10e6, requests / 150
            if all(0.9 < share < 1.1 for share in shares):
                return
        self.fail(f'measured {MEASURINGS} times, and still {shares}')

    def test_a_disk_that_seeks(self):
        """It is as slow as its model; a busy machine makes it slower yet.

        The formula gives 80 random requests per second, 171 MB/s in sequence,
        and 13 MB/s for two at a time that are in sequence each.
        """
        for _ in range(MEASURINGS):
            _, requests = measured(fio(4, 'randread', '4k', 1), 'read')
            alone, _ = measured(fio(4, 'read', '1M', 4), 'read')
            readers = [
                fio(4, 'read', '128k', 1),
                fio(4, 'read', '128k', 1, offset='4g'),
            ]
            both = sum(measured(one, 'read')[0] for one in readers)
            if 60 < requests < 90 and 100e6 < alone < 180e6 and both < 25e6:
                return
        self.fail(f'{requests} per second, {alone} and {both} bytes/s')

    def test_device_mapper(self):
        name = 'testbed-linear'
        shell.run(
            'dmsetup', 'create', name, input=f'0 2048 linear {device(3)} 4096'
        )
        try:
            path = f'/dev/mapper/{name}'
            with open(path, 'r+b', buffering=0) as stream:
                stream.write(b'mapped' + bytes(506))
                os.fsync(stream.fileno())
        finally:
            udev.settle()
            shell.run('dmsetup', 'remove', '--retry', name)
        with open(device(3), 'rb') as stream:
            stream.seek(4096 * 512)
            self.assertEqual(b'mapped', stream.read(6))
        for target in ('snapshot', 'thin-pool', 'mirror', 'crypt'):
            shell.run('modprobe', f'dm-{target}')
            self.assertIn(
                f'\n{target} ', '\n' + shell.run('dmsetup', 'targets')
            )

    def test_io_cost(self):
        controllers = (CGROUPS / 'cgroup.controllers').read_text().split()
        self.assertIn('io', controllers)
        (CGROUPS / 'cgroup.subtree_control').write_text('+io')
        number = (block(3) / 'dev').read_text().strip()
        group = CGROUPS / 'testbed'
        group.mkdir()
        try:
            (CGROUPS / 'io.cost.model').write_text(
                f'{number} ctrl=user model=linear rbps=10000000'
                ' rseqiops=2500 rrandiops=2500 wbps=10000000'
                ' wseqiops=2500 wrandiops=2500'
            )
            (CGROUPS / 'io.cost.qos').write_text(
                f'{number} enable=1 ctrl=user min=100.00 max=100.00'
            )
            (group / 'io.weight').write_text('300')
            self.assertIn('300', (group / 'io.weight').read_text())
            load = fio(3, 'read', '1M', 4, group)
            bandwidth, _ = measured(load, 'read')
            # io.cost holds an unthrottled disk to its model
            self.assertLess(bandwidth, 13e6)
        finally:
            (CGROUPS / 'io.cost.qos').write_text(f'{number} enable=0')
            deadline = time.monotonic() + 120
            while 'populated 1' in (group / 'cgroup.events').read_text():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)
            group.rmdir()

    def test_environment(self):
        shell.run('python', '-c', 'import cinder.objects, cinder_vdisk_mapper')
        self.assertRaises(OSError, open, 'written', 'w')
