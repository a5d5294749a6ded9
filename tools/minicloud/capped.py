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


"""Disks with a physical cap on their throughput.

Each is a loop device on a file that a qemu-storage-daemon exports by FUSE
through a throttle, so that reads and writes of all kinds are held to the cap.
"""

import json
import pathlib

from tools.minicloud import disks
from tools.minicloud import fuse
from tools.minicloud import process
from tools.minicloud.state import Host
from tools.minicloud.state import State

# With more than one request at once QEMU 7.2's export mixes up concurrent
# writes.
_REQUESTS = 1


def make(state: State, host: Host) -> None:
    """Make and prepare the disks of a host, each capped to its figures."""
    disks.make(state, host, lambda backing: attach(state, host, backing))


def attach(state: State, host: Host, backing: pathlib.Path) -> str:
    """Make a device of a file, capped to the host's ``mbps`` and ``iops``."""
    exported = backing.with_suffix('.exported')
    exported.touch()
    fuse.mount(
        state,
        exported,
        [
            'qemu-storage-daemon',
            '--object',
            f'throttle-group,id=cap,limits.bps-total={host.mbps * 10**6},'
            f'limits.iops-total={host.iops}',
            '--blockdev',
            f'driver=file,node-name=file,filename={backing},'
            'cache.direct=on,aio=threads',
            '--blockdev',
            'driver=throttle,node-name=capped,throttle-group=cap,file=file',
            '--export',
            'type=fuse,id=export,node-name=capped,writable=on,'
            f'mountpoint={exported}',
        ],
        _REQUESTS,
    )
    return disks.attach(exported)


def measure(path: pathlib.Path, mib: int) -> tuple[float, float]:
    """Write and read a file with direct I/O; return MB/s of each.

    :raises ProcessError: what was read is not what was written.
    """
    text = process.run(
        'fio',
        '--name=bare',
        f'--filename={path}',
        f'--size={mib}M',
        '--rw=write',
        '--bs=1M',
        '--direct=1',
        '--ioengine=psync',
        '--verify=crc32c',
        '--verify_fatal=1',
        '--verify_state_save=0',
        '--output-format=json',
    )
    path.unlink()
    (job,) = json.loads(text)['jobs']
    return job['write']['bw_bytes'] / 1e6, job['read']['bw_bytes'] / 1e6
