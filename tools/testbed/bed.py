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

"""The guest as it runs: started, given commands, its disks throttled."""

import compileall
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import types
import typing

from tools import seeking_disk
from tools.testbed import accel
from tools.testbed import commands
from tools.testbed import image
from tools.testbed import machine
from tools.testbed import packages
from tools.testbed import qmp

TOP = pathlib.Path(__file__).resolve().parents[2]
# What programs in the guest import of the checkout.
PACKAGES = ('cinder_vdisk_mapper', 'nova_diskplacer', 'tests', 'tools')
BOOT_TIMEOUT = 300
# Of the console, where QEMU ends while the guest boots and it boots again.
CONSOLE_LINES = 25
MEMORY_MIB = 3072


class Testbed:
    """A guest that runs for as long as the context does.

    It and all that it wrote are gone afterwards, even if this process is
    killed: QEMU ends with the thread that started it, and what backs the
    disks has no name.

    :param disks: what it has beside its root disk.
    :param memory_mib: its memory, half of it in each NUMA node.
    :param server: has it boot as a server, not by the testbed's own init.
    :param whole_cloud: its image has what a whole cloud takes.
    """

    def __init__(
        self,
        disks: typing.Sequence[machine.Disk] = machine.DISKS,
        memory_mib: int = MEMORY_MIB,
        server: machine.Server | None = None,
        whole_cloud: bool = False,
    ) -> None:
        self.disks = tuple(disks)
        self._memory_mib = memory_mib
        self._server = server
        self._whole_cloud = whole_cloud
        self._stack = contextlib.ExitStack()
        self.boot_seconds = 0.0

    def __enter__(self) -> 'Testbed':
        with contextlib.ExitStack() as stack:
            path = image.build(self._whole_cloud)
            directory = pathlib.Path(sysconfig.get_path('purelib')).resolve()
            installed = directory, packages.build(directory)
            # the guest cannot write there, and would compile at each start
            for package in PACKAGES:
                compileall.compile_dir(TOP / package, quiet=1)
            attempts = [*accel.candidates(), accel.ALWAYS]
            booted = False
            while not booted:
                name = attempts.pop(0)
                begun = time.monotonic()
                with contextlib.ExitStack() as attempt:
                    booted = self._boot(
                        name, path, installed, attempt, last=not attempts
                    )
                    if booted:
                        stack.push(attempt.pop_all())
            accel.remember(name)
            self.boot_seconds = time.monotonic() - begun
            self.accel = name
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._stack.close()

    def _boot(
        self,
        name: str,
        path: pathlib.Path,
        installed: tuple[pathlib.Path, pathlib.Path],
        stack: contextlib.ExitStack,
        last: bool,
    ) -> bool:
        """Start the guest; False if another attempt may succeed.

        The accelerator may not work, and the kernel of an emulated machine
        may panic while it boots on a busy host.
        """
        ours, theirs = zip(
            *(_pair(stack) for _ in ('commands', 'qmp')), strict=True
        )
        backing = [_backing(disk, stack) for disk in self.disks]
        descriptors = [one.fileno() for one in (*theirs, *backing)]
        self._console = stack.enter_context(
            tempfile.TemporaryFile(dir='/var/tmp')
        )
        argv = machine.arguments(
            name,
            path,
            shares(),
            installed,
            list(zip(self.disks, descriptors[2:], strict=True)),
            (descriptors[0], descriptors[1]),
            self._memory_mib,
            self._server,
        )
        self._qemu = subprocess.Popen(
            ['setpriv', '--pdeathsig', 'KILL', *argv],
            stdin=subprocess.DEVNULL,
            stdout=self._console,
            stderr=self._console,
            pass_fds=descriptors,
        )
        stack.callback(self._kill)
        # a server of NBD ends with the last who has its other end
        for end in (*theirs, *backing):
            end.close()
        self._commands = commands.Commands(ours[0])
        self._monitor = qmp.Monitor(ours[1])
        return self._wait_ready(name, last)

    def _wait_ready(self, name: str, last: bool) -> bool:
        begun = time.monotonic()
        while not self._commands.ready.wait(0.2):
            taken = time.monotonic() - begun
            if self._qemu.poll() is not None:
                ended = f'QEMU ended with {self._qemu.returncode}:'
                if last:
                    raise commands.CommandError(f'{ended}\n{self.console()}')
                if name == accel.ALWAYS:
                    lines = self.console().splitlines()[-CONSOLE_LINES:]
                    print(
                        ended, *lines, 'booting again',
                        sep='\n', file=sys.stderr,
                    )  # fmt: skip
                return False
            if name != accel.ALWAYS and taken > accel.PATIENCE:
                return False
            if taken > BOOT_TIMEOUT:
                raise commands.CommandError(
                    f'no agent within {BOOT_TIMEOUT} s:\n{self.console()}'
                )
        self._monitor.greet()
        return True

    def _kill(self) -> None:
        self._qemu.kill()
        self._qemu.wait()

    @property
    def pid(self) -> int:
        """The process id of QEMU."""
        return self._qemu.pid

    def console(self) -> str:
        """Return what the guest's kernel and QEMU have printed."""
        size = os.fstat(self._console.fileno()).st_size
        content = os.pread(self._console.fileno(), size, 0)
        return content.decode(errors='replace').replace('\r', '')

    def run(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        cwd: str | os.PathLike[str] = TOP,
        timeout: float = 600,
        check: bool = True,
        say: commands.Say | None = None,
    ) -> commands.Result:
        """Execute a command in the guest as root.

        ``python`` is that of this process's environment.

        :param env: variables beside those that the guest sets.
        :param timeout: seconds that it may take.
        :param check: whether it must succeed.
        :param say: called with ``out`` or ``err`` and text as it comes.
        :raises CommandError: it took longer, or failed and must not.
        """
        result = self._commands.execute(
            argv, environment(**(env or {})), str(cwd), timeout, say
        )
        if check and result.rc:
            raise commands.CommandError(
                f'{" ".join(argv)}: exit {result.rc}: {result.out}{result.err}'
            )
        return result

    def device(self, index: int) -> str:
        """Return the path in the guest of a disk, the first being 0."""
        return machine.link(index, self.disks[index])

    def throttle(
        self, index: int, mbps: float | None = None, iops: int | None = None
    ) -> None:
        """Set from outside what a disk does at most; None: no limit."""
        limits = machine.throttle(mbps, iops)
        self._monitor.execute(
            'block_set_io_throttle',
            device=f'drive{index}',
            **limits,
            bps_rd=0,
            bps_wr=0,
            iops_rd=0,
            iops_wr=0,
        )


def _pair(
    stack: contextlib.ExitStack,
) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    return stack.enter_context(ours), stack.enter_context(theirs)


def _backing(
    disk: machine.Disk, stack: contextlib.ExitStack
) -> typing.BinaryIO | socket.socket:
    """Return a sparse file that nobody can find, or a connected NBD server."""
    if disk.kind is not None:
        return stack.enter_context(
            seeking_disk.serve(
                disk.gib * machine.GIB,
                disk.kind,
                disk.cache_mib << 20,
                disk.slower,
            )
        )
    opened = stack.enter_context(tempfile.TemporaryFile(dir='/var/tmp'))
    os.truncate(opened.fileno(), disk.gib * machine.GIB)
    return opened


def shares() -> list[pathlib.Path]:
    """Return what the guest reads of this machine: checkout, environment."""
    venv = pathlib.Path(sys.prefix).resolve()
    return [TOP] if venv.is_relative_to(TOP) else [TOP, venv]


def environment(**extra: str) -> dict[str, str]:
    """Return the variables of a command in the guest."""
    return {
        'PATH': f'{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin'
        ':/usr/sbin:/usr/bin:/sbin:/bin',
        'HOME': '/root',
        'LANG': 'C.UTF-8',
        'PYTHONDONTWRITEBYTECODE': '1',
        **extra,
    }
