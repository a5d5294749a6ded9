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


"""What an operator does meanwhile: drains disks, and audits hosts."""

import json
import signal
import subprocess
import threading
import time
import typing

from tools.minicloud import config
from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import reading
from tools.storm import tracebacks
from tools.storm.invariants import Violation
from tools.storm.plan import Fault

# Seconds after which a command is held to hang.
_LIMIT = 300
_ATTEMPTS = 4

EMPTY, STAYS = 0, 3


class Operator:
    """Runs ``diskplacer-manage disk`` on the hosts of a cloud."""

    def __init__(self, cloud: Cloud) -> None:
        self._state = cloud.state
        self.violations: list[Violation] = []
        self.statuses: list[str] = []
        self._running: set[subprocess.Popen[str]] = set()

    def do(self, fault: Fault, over: threading.Event) -> None:
        """Do one operation, to its end."""
        host = fault.target
        if not fault.disks or fault.kind.startswith('audit'):
            options = ['--repair'] if fault.kind == 'audit-repair' else []
            self.finish(host, self.start(host, 'audit', *options))
            return
        names = reading.disk_names(self._state, host)
        disks = [names[index] for index in fault.disks]
        drains = [self.start(host, 'drain', disk) for disk in disks]
        if fault.kind == 'drain-killed':
            over.wait(fault.seconds)
            for drain in drains:
                drain.send_signal(signal.SIGKILL)
        elif fault.kind == 'drain-cancelled':
            over.wait(fault.seconds)
            for disk in disks:
                self.finish(host, self.start(host, 'drain', disk, '--cancel'))
        for disk, drain in zip(disks, drains, strict=True):
            status, _ = self.finish(host, drain)
            if status == EMPTY and fault.kind != 'drain-cancelled':
                self._check_empty(host, disk)
        for disk in disks:
            self.cancel(host, disk)

    def _check_empty(self, host: str, disk: str) -> None:
        try:
            found = reading.read_disks(self._state, host)
        except OSError:
            # one of them fails just now
            return
        for one in found:
            names = [file.name for file in one.files]
            if one.uuid == disk and names and one.draining:
                self.violations.append(
                    Violation(
                        'drain', disk, f'is said to be empty, and has {names}'
                    )
                )

    def cancel(self, host: str, disk: str) -> bool:
        """Offer a disk again; returns whether it is."""
        status, _ = self.finish(
            host, self.start(host, 'drain', disk, '--cancel')
        )
        return status == 0

    def cancel_all(self, host: str) -> None:
        """Offer all disks of a host again, now that nothing is amiss."""
        for _ in range(_ATTEMPTS):
            left = [
                disk.uuid
                for disk in reading.read_disks(self._state, host)
                if disk.draining
            ]
            offered = [self.cancel(host, disk) for disk in left]
            if all(offered):
                return
            time.sleep(5)
        for disk in left:
            self.violations.append(
                Violation('drain', disk, f'cannot be cancelled on {host}')
            )

    def audit(self, host: str, *options: str) -> typing.Any:
        """Return the findings and the repairs of an audit, decoded."""
        status, printed = self.finish(
            host, self.start(host, 'audit', *options)
        )
        if status not in (0, STAYS):
            self.violations.append(
                Violation('audit', host, f'exit {status}: {printed[-300:]}')
            )
            return {'findings': [], 'repaired': []}
        return json.loads(printed)

    def start(self, host: str, *arguments: str) -> subprocess.Popen[str]:
        conf = f'{self._state.host_dir(host)}/diskplacer.conf'
        argv = [
            f'{ini.BIN}/diskplacer-manage',
            f'--config-file={conf}',
            'disk',
            *arguments,
            *self._common(host)[: 3 if arguments[0] == 'drain' else 2],
        ]
        command = subprocess.Popen(
            argv,
            env=process.environment(**config.login(self._state)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._running.add(command)
        return command

    def _common(self, host: str) -> list[str]:
        """Return the options of every drain; of an audit all but the last."""
        return [
            f'--cinder-config-file={self._state.host_dir(host)}/cinder.conf',
            '--format=json',
            f'--libvirt-uri={hypervisor.uri(self._state, host)}',
        ]

    def end(self) -> None:
        """Kill the commands that run."""
        for command in [*self._running]:
            command.kill()

    def finish(
        self, host: str, command: subprocess.Popen[str]
    ) -> tuple[int, str]:
        """Wait for a command; returns its exit status and what it printed."""
        assert isinstance(command.args, list)
        words = [
            word for word in command.args[3:] if word not in self._common(host)
        ]
        name = f'{host}: {" ".join(words)}'
        try:
            out, err = command.communicate(timeout=_LIMIT)
        except subprocess.TimeoutExpired:
            command.kill()
            out, err = command.communicate()
            self.violations.append(
                Violation('command', name, f'hangs for {_LIMIT} s')
            )
        self._running.discard(command)
        said = err.strip().splitlines()
        last = said[-1] if said and command.returncode else ''
        self.statuses.append(f'{name}: exit {command.returncode} {last}')
        for found in tracebacks.parse(err):
            if tracebacks.is_unhandled('diskplacer-manage', found):
                self.violations.append(
                    Violation(
                        'traceback',
                        name,
                        f'{found.text} at {", ".join(found.frames)}',
                    )
                )
        return command.returncode, out
