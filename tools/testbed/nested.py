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

"""Guests in the testbed's guest, which read their vdisk through virtio.

They boot in about 80 seconds: QEMU emulates a machine that it emulates.
"""

import pathlib
import subprocess

from tools.minicloud import guest
from tools.testbed import machine

KERNEL = pathlib.Path('/boot/kernel')
INIT = pathlib.Path(__file__).with_name('nested-init')
BLOCK = 128 << 10
MEMORY_MIB = 96

#: Has a guest read its vdisk without end.
SCAN = 'vdisk.scan'


def make_initrd(path: pathlib.Path) -> None:
    """Write the initramfs; only in the testbed's guest."""
    (modules,) = pathlib.Path('/usr/lib/modules').iterdir()
    paths = []
    for module in guest.MODULES:
        (found,) = modules.glob(f'kernel/{module}.ko*')
        paths.append(found)
    files = {
        'init': INIT.read_bytes(),
        'bin/busybox': pathlib.Path('/bin/busybox').read_bytes(),
        **guest.module_files(paths),
    }
    path.write_bytes(guest.archive(files))


class Guest:
    """A guest that reads its vdisk when it is told to; use as a context.

    :param cgroup: the directory of the cgroup that QEMU is in.
    :param vdisk: the path of the vdisk.
    :param initrd: what ``make_initrd`` has written.
    """

    def __init__(
        self, cgroup: pathlib.Path, vdisk: pathlib.Path, initrd: pathlib.Path
    ) -> None:
        self._process = subprocess.Popen(
            ['sh', '-c', 'echo $$ > "$0"/cgroup.procs && exec "$@"',
             str(cgroup),
             'qemu-system-x86_64', '-nodefaults', '-no-user-config',
             '-display', 'none', '-vga', 'none', '-serial', 'stdio',
             '-no-reboot', '-machine', 'q35', '-accel', 'tcg',
             '-cpu', machine.CPUS['tcg'], '-m', str(MEMORY_MIB),
             '-kernel', str(KERNEL), '-initrd', str(initrd),
             '-append', machine.KERNEL,
             '-drive', f'if=none,id=vdisk,file={vdisk},format=raw,cache=none,'
             'aio=native',
             '-device', 'virtio-blk-pci,drive=vdisk'],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __enter__(self) -> 'Guest':
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait(self, said: str = 'ready') -> None:
        """Return when the guest says this.

        :raises RuntimeError: it has ended, or says something else.
        """
        assert self._process.stdout is not None
        seen = []
        for line in self._process.stdout:
            if line.strip() == f'guest: {said}':
                return
            seen.append(line)
            if 'guest: error' in line:
                break
        raise RuntimeError(f'a guest has not said {said}: {"".join(seen)}')

    def read(self, size: int) -> None:
        """Have it read so many bytes, whole blocks; returns when it has."""
        assert self._process.stdin is not None
        count = size // BLOCK
        print(count, file=self._process.stdin, flush=True)
        self.wait(f'read {count}')
