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


"""Kills programs while a server moves, and sees what it comes to."""

import collections.abc
import contextlib
import dataclasses
import os
import pathlib
import signal
import time

from tools.minicloud import hypervisor
from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud
from tools.storm import kills
from tools.storm import moved_server
from tools.storm import nova_remains
from tools.storm.kills import Kill

# Seconds that what was killed stays away.
_AWAY = 5.0
# Seconds in which Nova ends what it has begun, and a move ends.
_PATIENCE = 300.0
# Seconds in which Nova sees that a guest has ended.
_GRACE = 25.0
# Seconds in which Nova removes what a migration has left that has ended.
_REMOVAL = 60.0
# MiB/s at which memory is copied, and vdisks, so that there is time to kill.
_SLOW_MEMORY = 6
_SLOW_COPY = 96
# How often an operator tries.
_TRIES = 4
# How often a kill is repeated whose guest's kernel has crashed.
_CRASHES = 4


class Killing:
    """Has a server move, kills, and brings the server back.

    The server stays the same as long as nothing is violated. What a kill has
    left for good counts once: later ones are judged by what they leave.
    """

    def __init__(
        self,
        cloud: Cloud,
        image: str,
        flavor: str,
        server: moved_server.Server | None = None,
    ) -> None:
        self._cloud = cloud
        self._api = cloud.api
        self._image = image
        self._flavor = flavor
        self._server = server
        self._before: list[str] = []
        self._limit_copies(['--rate', str(_SLOW_COPY)])

    def end(self) -> None:
        """Let vdisks be copied as fast as before."""
        self._limit_copies([])

    def _limit_copies(self, options: list[str]) -> None:
        for host in moved_server.REAL:
            name = f'{moved_server.SETTLER}@{host}'
            argv = self._cloud.services[name].argv
            if '--rate' in argv:
                del argv[argv.index('--rate') :]
            argv += options
            self._cloud.restart(name)

    def do(self, kill: Kill) -> kills.Ended:
        """Have the server move, and kill once.

        It is done again if the guest's kernel has crashed, which is in memory
        alone: before its release 9.0, a QEMU without KVM loses writes of a
        guest to memory that it copies.
        """
        ended = self._do(kill)
        crashes = ended.crashes
        while ended.crashes and crashes <= _CRASHES:
            ended = self._do(kill)
            crashes += ended.crashes
        return dataclasses.replace(ended, crashes=crashes)

    def _do(self, kill: Kill) -> kills.Ended:
        server = self._server or self._boot()
        hosts = self._sides(server)
        begun = time.monotonic()
        means: list[str] = []
        violations: list[str] = []
        crashes = 0
        try:
            told = server.told()
            self._begin(server, kill, hosts)
            begun = time.monotonic()
            if kill.phase == kills.COPY:
                told = max(told, server.told())
            self._kill(server, kill, hosts)
            host = self._bring_back(server, means)
            self._remove_remains(server, means)
            if kill.program in (kills.QEMU, kills.REBOOT):
                server.wait_restarted(told)
            server.wait_settled(host, _PATIENCE, self._before)
            server.wait_verified()
        except (
            moving.WrongError,
            process.ProcessError,
            ApiError,
        ) as error:
            crashes = int(self._has_crashed(server))
            violations.append(f'{type(error).__name__}: {error}')
            violations += self._tell_of_guest(server)
        side = next(
            side for side, name in hosts.items() if name == server.host()
        )
        seconds = time.monotonic() - begun
        if violations:
            self._server = None
            left = list(self._discard(server))
            # what is left is no matter of the guest's kernel
            crashes = 0 if left else crashes
            violations += left
        return kills.Ended(
            kill,
            side,
            round(seconds, 1),
            tuple(means),
            tuple(violations),
            crashes,
        )

    def _boot(self) -> moved_server.Server:
        uuid = self._api.create_server(
            'moving', self._flavor, self._image, host=moved_server.REAL[0]
        )
        self._api.wait_server(uuid)
        self._server = moved_server.Server(self._cloud, uuid)
        self._server.wait_verified()
        self._before = self._server.left(moved_server.REAL[0])
        return self._server

    def _sides(self, server: moved_server.Server) -> dict[str, str]:
        source = server.host()
        (destination,) = set(moved_server.REAL) - {source}
        return {kills.SOURCE: source, kills.DESTINATION: destination}

    def _is_enabled(self) -> bool:
        """Return whether both hosts take servers.

        A nova-compute that has lost libvirtd disables itself for a while.
        """
        path = '/os-services?binary=nova-compute'
        return all(
            (one['state'], one['status']) == ('up', 'enabled')
            for one in self._api.get('compute', path)['services']
        )

    def _begin(
        self, server: moved_server.Server, kill: Kill, hosts: dict[str, str]
    ) -> None:
        """Begin a move, and wait for a phase of it."""
        process.wait('hosts enabled', self._is_enabled, _PATIENCE, 1)
        slow = kill.phase == kills.MIGRATE
        server.limit_migration(*([_SLOW_MEMORY] if slow else []))
        server.migrate_live()
        is_there = {
            kills.ATTACH: lambda: 'attaching' in server.phases(),
            kills.MIGRATE: lambda: self._copies_memory(server, hosts),
            kills.COPY: lambda: self._copies_data(server, hosts),
            kills.RELEASE: lambda: 'releasing' in server.phases(),
        }[kill.phase]
        process.wait(kill.phase, is_there, _PATIENCE, 0.05)

    def _copies_memory(
        self, server: moved_server.Server, hosts: dict[str, str]
    ) -> bool:
        done = hypervisor.virsh(
            self._cloud.state, hosts[kills.SOURCE], 'domjobinfo', server.uuid
        )
        return 'Memory processed' in done

    def _copies_data(
        self, server: moved_server.Server, hosts: dict[str, str]
    ) -> bool:
        return 'left' in server.phases() and '<mirror' in hypervisor.virsh(
            self._cloud.state,
            hosts[kills.DESTINATION],
            'dumpxml',
            server.uuid,
        )

    def _kill(
        self, server: moved_server.Server, kill: Kill, hosts: dict[str, str]
    ) -> None:
        """Kill, and start what was killed again."""
        host = hosts[kill.side]
        if kill.program == kills.REBOOT:
            self._api.action(server.uuid, reboot={'type': 'HARD'})
            return
        if kill.program == kills.QEMU:
            os.kill(self._qemu(server, host), signal.SIGKILL)
            # libvirt says of a guest that has ended that it runs, for a moment
            with contextlib.suppress(process.ProcessError):
                process.wait(
                    'ended', lambda: not self._runs(server, host), _GRACE, 0.1
                )
            return
        names = [f'{program}@{host}' for program in kill.program.split('+')]
        for name in names:
            self._cloud.services[name].signal_session(signal.SIGKILL)
            self._cloud.stop_service(name)
        time.sleep(_AWAY)
        for name in names:
            self._cloud.start_service(name)

    def _qemu(self, server: moved_server.Server, host: str) -> int:
        """Return the process of the guest on a host.

        :raises ProcessError: there is none.
        """
        directory = self._cloud.state.path / 'libvirt' / host / 'run' / 'qemu'
        for record in directory.glob('*.pid'):
            with contextlib.suppress(OSError, ValueError):
                pid = int(record.read_text())
                words = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
                if server.uuid.encode() in words.split(b'\0'):
                    return pid
        raise process.ProcessError(f'no guest of {server.uuid} on {host}')

    def _runs(self, server: moved_server.Server, host: str) -> bool:
        with contextlib.suppress(process.ProcessError):
            state = hypervisor.virsh(
                self._cloud.state, host, 'domstate', server.uuid
            )
            return state.strip() == 'running'
        return False

    def _bring_back(
        self, server: moved_server.Server, means: list[str]
    ) -> str:
        """Do what an operator does until the server runs; returns its host.

        :raises ProcessError: it does not run then.
        """
        for _ in range(_TRIES):
            process.wait('no task', server.is_idle, _PATIENCE, 1)
            # Nova sees the end of a guest some seconds later
            with contextlib.suppress(process.ProcessError):
                process.wait('runs', lambda: self._is_well(server), _GRACE, 1)
                return server.host()
            found = self._api.server(server.uuid)
            runs = self._runs(server, server.host())
            self._help(server, found['status'], runs, means)
        raise process.ProcessError(
            f'server is {found["status"]} on {server.host()}'
        )

    def _remove_remains(
        self, server: moved_server.Server, means: list[str]
    ) -> None:
        """Do what an operator does about what Nova leaves for good."""
        remains = nova_remains.Remains(server)
        with contextlib.suppress(process.ProcessError):
            process.wait('nothing', remains.is_nothing, _REMOVAL, 1)
            return
        means += remains.remove()

    def _is_well(self, server: moved_server.Server) -> bool:
        return (
            self._api.server(server.uuid)['status'] == 'ACTIVE'
            and server.is_idle()
            and self._runs(server, server.host())
        )

    def _help(
        self,
        server: moved_server.Server,
        status: str,
        runs: bool,
        means: list[str],
    ) -> None:
        if status == 'SHUTOFF':
            means.append('server start')
            self._api.action(server.uuid, **{'os-start': None})
        elif status == 'ERROR' and runs:
            means.append('server set --state active')
            self._api.action(
                server.uuid, **{'os-resetState': {'state': 'active'}}
            )
        else:
            means.append(f'server reboot --hard ({status})')
            self._api.action(server.uuid, reboot={'type': 'HARD'})

    def _has_crashed(self, server: moved_server.Server) -> bool:
        """Return whether the guest's kernel has, and it read no wrong byte."""
        try:
            server.numbers('checked')
        except moving.CrashError:
            return True
        except (moving.WrongError, ApiError):
            pass
        return False

    def _tell_of_guest(
        self, server: moved_server.Server
    ) -> collections.abc.Iterator[str]:
        """Yield what the guest was at, which is deleted with its server."""
        with contextlib.suppress(process.ProcessError, ApiError, OSError):
            console = self._api.console(server.uuid)
            seconds = self._processor_time(server)
            time.sleep(_GRACE)
            took = self._processor_time(server) - seconds
            yield (
                f'its QEMU takes {took:.0f} s of the processor in '
                f'{_GRACE:.0f} s; its console ends with {console[-300:]!r}'
            )

    def _processor_time(self, server: moved_server.Server) -> float:
        """Return the seconds that the QEMU of a server has run.

        :raises ProcessError: there is none.
        """
        pid = self._qemu(server, server.host())
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text()
        user, system = fields.rpartition(')')[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')

    def _discard(
        self, server: moved_server.Server
    ) -> collections.abc.Iterator[str]:
        """Delete a server; yields what cannot be deleted, or stays."""

        def left() -> list[str]:
            found = moved_server.connections(self._cloud)
            return [one for one in found if one not in self._before]

        try:
            self._api.delete_server(server.uuid)
            process.wait('nothing left', lambda: not left(), _PATIENCE, 1)
        except (process.ProcessError, ApiError) as error:
            yield f'after its deletion: {error}'
            yield from left()
