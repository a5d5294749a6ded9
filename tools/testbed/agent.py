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

"""Runs in the guest: executes the commands that come as lines of JSON.

``{"id", "argv", "env", "cwd"}`` starts one, ``{"id", "signal"}`` signals its
process group. ``{"id", "out" or "err"}`` is what it printed, ``{"id", "rc"}``
that it ended. The first line of all is ``{"ready": true}``.
"""

import codecs
import json
import os
import subprocess
import sys
import threading
import typing


class Agent:
    def __init__(self, port: typing.BinaryIO) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def serve(self) -> None:
        """Execute commands until the host closes its end."""
        self._send(ready=True)
        for line in self._port:
            request = json.loads(line)
            if 'argv' in request:
                self._start(**request)
            else:
                self._signal(request['id'], request['signal'])

    def _send(self, **message: object) -> None:
        data = json.dumps(message).encode() + b'\n'
        with self._lock:
            while data:
                data = data[self._port.write(data) :]

    def _start(
        self, id: int, argv: list[str], env: dict[str, str], cwd: str
    ) -> None:
        try:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._send(id=id, err=f'{error}\n')
            self._send(id=id, rc=127)
            return
        self._running[id] = child
        threading.Thread(target=self._follow, args=(id, child)).start()

    def _follow(self, id: int, child: 'subprocess.Popen[bytes]') -> None:
        readers = [
            threading.Thread(target=self._copy, args=(id, name, stream))
            for name, stream in (('out', child.stdout), ('err', child.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        status = child.wait()
        del self._running[id]
        self._send(id=id, rc=status)

    def _copy(self, id: int, name: str, stream: typing.BinaryIO) -> None:
        decoder = codecs.getincrementaldecoder('utf-8')('replace')
        while data := os.read(stream.fileno(), 1 << 16):
            self._send(id=id, **{name: decoder.decode(data)})
        stream.close()

    def _signal(self, id: int, number: int) -> None:
        child = self._running.get(id)
        if child is not None:
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                pass


if __name__ == '__main__':
    with open(sys.argv[1], 'r+b', buffering=0) as opened:
        Agent(opened).serve()
