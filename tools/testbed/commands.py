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

"""Commands for the agent in the guest, and what becomes of them."""

import dataclasses
import itertools
import json
import queue
import signal
import socket
import threading
import time
import typing

Say = typing.Callable[[str, str], None]


class CommandError(Exception):
    """A command in the guest failed, or the guest did."""


@dataclasses.dataclass(frozen=True)
class Result:
    """How a command ended: exit status (minus a signal's number), output."""

    rc: int
    out: str
    err: str


class Commands:
    """Has the agent at the other end of a socket execute commands.

    Several threads may do so at once.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._answers: dict[int, queue.Queue[dict[str, typing.Any]]] = {}
        self._gone = False
        self.ready = threading.Event()
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for line in self._sock.makefile('rb'):
                message = json.loads(line)
                if 'ready' in message:
                    self.ready.set()
                elif answers := self._answers.get(message['id']):
                    answers.put(message)
        except OSError:
            pass
        with self._lock:
            self._gone = True
            for answers in list(self._answers.values()):
                answers.put({'gone': True})

    def _send(self, **message: object) -> None:
        data = json.dumps(message).encode() + b'\n'
        with self._lock:
            if self._gone:
                raise CommandError('the guest has ended')
            self._sock.sendall(data)

    def execute(
        self,
        argv: typing.Sequence[str],
        env: dict[str, str],
        cwd: str,
        timeout: float,
        say: Say | None = None,
    ) -> Result:
        """Execute a command to its end.

        :param say: called with ``out`` or ``err`` and text as it comes.
        :raises CommandError: not within ``timeout`` seconds; it is killed
            then. Or the guest ended.
        """
        number = next(self._ids)
        answers = self._answers[number] = queue.Queue()
        printed = {'out': '', 'err': ''}
        deadline = time.monotonic() + timeout
        try:
            self._send(id=number, argv=list(argv), env=env, cwd=cwd)
            while True:
                left = deadline - time.monotonic()
                try:
                    answer = answers.get(timeout=max(0, left))
                except queue.Empty:
                    self._send(id=number, signal=int(signal.SIGKILL))
                    raise CommandError(
                        f'{argv[0]}: not within {timeout:.0f} s: '
                        f'{printed["out"]}{printed["err"]}'
                    ) from None
                if 'gone' in answer:
                    raise CommandError(f'{argv[0]}: the guest ended')
                if 'rc' in answer:
                    return Result(answer['rc'], **printed)
                for name in printed.keys() & answer.keys():
                    printed[name] += answer[name]
                    if say:
                        say(name, answer[name])
        finally:
            del self._answers[number]
