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
import os
import pathlib

from tools.minicloud import disks
from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import Host
from tools.minicloud.state import State


def make(state: State, host: Host) -> None:
    """Make and prepare the disks of a host, each capped to its ``mbps``."""
    state.disk_root(host.name).mkdir(parents=True, exist_ok=True)
    directory = state.path / 'devices'
    directory.mkdir(exist_ok=True)
    disks.run_dir(state).mkdir(exist_ok=True)
    control = directory / 'fusectl'
    control.mkdir()
    process.run('mount', '-t', 'fusectl', 'none', str(control))
    for index in range(host.disks):
        raw = directory / f'{host.name}-{index}.raw'
        with raw.open('wb') as stream:
            stream.truncate(host.disk_gb * disks.GIB)
        exported = _export(state, raw, host.mbps, control)
        disks.prepare(
            state, host.name, disks.attach(exported), f'--mbps={host.mbps}'
        )


def _export(
    state: State, raw: pathlib.Path, mbps: int, control: pathlib.Path
) -> pathlib.Path:
    exported = raw.with_suffix('.exported')
    exported.touch()
    before = exported.stat().st_dev
    daemon = Process(
        raw.stem,
        [
            'qemu-storage-daemon',
            '--object',
            f'throttle-group,id=cap,limits.bps-total={mbps * 10**6}',
            '--blockdev',
            f'driver=file,node-name=file,filename={raw},'
            'cache.direct=on,aio=threads',
            '--blockdev',
            'driver=throttle,node-name=capped,throttle-group=cap,file=file',
            '--export',
            'type=fuse,id=export,node-name=capped,writable=on,'
            f'mountpoint={exported}',
        ],
        disks.run_dir(state),
        state.logs,
        ready=lambda: exported.stat().st_dev != before,
    )
    daemon.start()
    daemon.wait_ready()
    # With more than one request at once QEMU 7.2's export mixes up
    # concurrent writes.
    connection = control / str(os.minor(exported.stat().st_dev))
    (connection / 'max_background').write_text('1')
    return exported


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
