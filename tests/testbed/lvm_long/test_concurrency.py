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

"""Several processes and threads that change the same volume groups."""

import subprocess
import sys

from nova_diskplacer.disks.lvm import groups
from tests.testbed.lvm import base

PROCESSES = 2

# Four threads, of which two work on the same disk; all of them use the same
# names in both processes, so that each volume is made by one of them only.
SCRIPT = """
import concurrent.futures
import sys
from nova_diskplacer import exception
from nova_diskplacer.disks.lvm import copies, groups, volumes

disks, process, size = sys.argv[1:3], sys.argv[3], 8 << 20

def work(number):
    disk, own = disks[number % 2], f'{process}{number}'
    made = 0
    try:
        volumes.create(disk, f'volume-{number}', process, None, size)
        made = 1
    except exception.DiskError as error:
        assert 'belongs to' in str(error), error
    volumes.create(disk, f'volume-{own}', own, None, size)
    copies.snapshot(disk, f'volume-{own}', f'snapshot-{own}', own)
    volumes.extend(disk, f'volume-{own}', 2 * size)
    found = {v.name: v.size_bytes for v in groups.require(disk).vdisks}
    for name, expected in (
        (f'volume-{own}', 2 * size),
        (f'snapshot-{own}', size),
    ):
        assert found[name] == expected, found
    for name in (f'snapshot-{own}', f'volume-{own}'):
        if volumes.mark_deleted(disk, name):
            volumes.zero(disk, name)
        volumes.remove(disk, name, True)
    return made

with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(work, range(4))))
"""


class ConcurrencyTestCase(base.LVMTestCase):
    def test_threads_of_two_processes(self):
        disks = [
            self.prepared(device, thin).uuid
            for device, thin in zip(self.spare, (False, True), strict=True)
        ]
        running = [
            subprocess.Popen(
                [sys.executable, '-c', SCRIPT, *disks, f'p{number}'],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for number in range(PROCESSES)
        ]
        for one in running:
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)
        made = 0
        for one in running:
            out, err = one.communicate(timeout=1800)
            self.assertEqual(0, one.returncode, err)
            made += int(out)
        self.assertEqual(4, made)
        held = [
            vdisk.name
            for disk in disks
            for vdisk in groups.require(disk).vdisks
        ]
        self.assertEqual([f'volume-{n}' for n in (0, 2, 1, 3)], held)
        for disk in disks:
            base.purge(disk)
