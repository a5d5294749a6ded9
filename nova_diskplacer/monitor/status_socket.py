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

"""Asking the agent of this host for the state of its last round.

It listens on a Unix socket that only root can open. Whoever connects is sent
a snapshot as JSON, made then, and the connection ends; nothing is read.
"""

import collections.abc
import contextlib
import os
import socket
import socketserver
import threading

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.monitor import status

LOG = logging.getLogger(__name__)

Take = collections.abc.Callable[[], status.Snapshot | None]

# Seconds that a client may take to read its answer.
_PATIENCE = 5.0


class _Handler(socketserver.BaseRequestHandler):
    server: '_Server'
    request: socket.socket

    def handle(self) -> None:
        text = status.to_json(self.server.take())
        self.request.settimeout(_PATIENCE)
        # who does not want all of it goes
        with contextlib.suppress(OSError):
            self.request.sendall(text.encode())


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, take: Take) -> None:
        super().__init__(path, _Handler, bind_and_activate=False)
        self.take = take

    def handle_error(self, request: object, client_address: object) -> None:
        LOG.exception('An inquiry could not be answered.')


def path(state_dir: str) -> str:
    """Return the path of the agent's socket."""
    return os.path.join(state_dir, 'agent.sock')


def serve(state_dir: str, take: Take) -> socketserver.BaseServer:
    """Answer inquiries in threads of their own.

    A socket that another agent left is replaced.

    :param take: returns the snapshot; None: there was no round yet.
    :raises ContentionError: there can be no socket.
    """
    there = path(state_dir)
    new = there + '.new'
    server = _Server(new, take)
    try:
        os.makedirs(state_dir, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        server.server_bind()
        # nobody can connect before it listens
        os.chmod(new, 0o600)
        server.server_activate()
        os.rename(new, there)
    except OSError as error:
        server.server_close()
        raise exception.ContentionError(
            f'the socket {there}, see [diskplacer_agent] state_dir: '
            f'{error.strerror or error}'
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def ask(state_dir: str, seconds: float = 10.0) -> status.Snapshot | None:
    """Return the snapshot of the agent of this host.

    :param seconds: how long the agent may take.
    :returns: None if there was no round yet.
    :raises ContentionError: no agent runs or it does not answer.
    """
    there = path(state_dir)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(there)
            with connection.makefile('rb') as stream:
                text = stream.read()
    except (FileNotFoundError, ConnectionRefusedError):
        raise exception.ContentionError(
            f'no agent answers at {there}: start diskplacer-agent, or see '
            'whether [diskplacer_agent] state_dir is the same for it'
        ) from None
    except PermissionError:
        raise exception.ContentionError(
            f'{there}: asking the agent takes root'
        ) from None
    except OSError as error:
        raise exception.ContentionError(
            f'the agent at {there}: {error.strerror or error}'
        ) from error
    if not text:
        raise exception.ContentionError(
            f'the agent at {there} could not answer: see its log'
        )
    return status.from_json(text.decode())
