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

"""QEMU's monitor."""

import json
import socket
import typing


class QMPError(Exception):
    """QEMU refused a command."""


class Monitor:
    """Speaks QMP on a connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._stream = sock.makefile('rw', encoding='utf-8')

    def greet(self) -> None:
        """Wait for QEMU's greeting and answer it."""
        self._receive()
        self.execute('qmp_capabilities')

    def execute(self, command: str, **arguments: object) -> typing.Any:
        """Have a command executed and return what it returns.

        :raises QMPError: QEMU refused it, or has ended.
        """
        json.dump({'execute': command, 'arguments': arguments}, self._stream)
        self._stream.write('\n')
        self._stream.flush()
        while True:
            answer = self._receive()
            if 'error' in answer:
                raise QMPError(f'{command}: {answer["error"]["desc"]}')
            if 'return' in answer:
                return answer['return']

    def _receive(self) -> dict[str, typing.Any]:
        line = self._stream.readline()
        if not line:
            raise QMPError('QEMU has ended')
        return json.loads(line)
