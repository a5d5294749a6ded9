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

"""Serves the agent's status at a Unix socket.

Only root can connect. The agent sends the status as JSON and closes the
connection; it reads nothing.
"""

import contextlib
import os
import socket
import socketserver
import threading

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.monitor import status

LOG = logging.getLogger(__name__)

# Seconds that a client may take to read the status.
_SEND_TIMEOUT = 5.0


class _Handler(socketserver.BaseRequestHandler):
    server: '_Server'
    request: socket.socket

    def handle(self) -> None:
        text = status.to_json(self.server.provider())
        self.request.settimeout(_SEND_TIMEOUT)
        # the client may have closed the connection
        with contextlib.suppress(OSError):
            self.request.sendall(text.encode())


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, provider: status.StatusProvider) -> None:
        super().__init__(path, _Handler, bind_and_activate=False)
        self.provider = provider

    def handle_error(self, request: object, client_address: object) -> None:
        LOG.exception('The status could not be sent.')


def path(state_dir: str) -> str:
    """Return the path of the agent's socket."""
    return os.path.join(state_dir, 'agent.sock')


def serve(
    state_dir: str, provider: status.StatusProvider
) -> socketserver.BaseServer:
    """Serve the status in threads.

    This replaces the socket of an earlier agent.

    :raises ContentionError: the socket cannot be created.
    """
    final = path(state_dir)
    new = final + '.new'
    server = _Server(new, provider)
    try:
        os.makedirs(state_dir, mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        server.server_bind()
        # clients cannot connect before the server listens
        os.chmod(new, 0o600)
        server.server_activate()
        os.rename(new, final)
    except OSError as error:
        server.server_close()
        raise exception.ContentionError(
            f'the socket {final}, see [diskplacer_agent] state_dir: '
            f'{error.strerror or error}'
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fetch(state_dir: str, timeout: float = 10.0) -> status.Status | None:
    """Return the status of the agent of this host.

    :param timeout: in seconds.
    :returns: None before the agent's first interval.
    :raises ContentionError: the agent is not running or does not answer.
    """
    address = path(state_dir)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(address)
            with connection.makefile('rb') as stream:
                text = stream.read()
    except (FileNotFoundError, ConnectionRefusedError):
        raise exception.ContentionError(
            f'no agent answers at {address}: start diskplacer-agent, or check '
            'that its [diskplacer_agent] state_dir is the same'
        ) from None
    except PermissionError:
        raise exception.ContentionError(
            f'{address}: only root can connect to the agent'
        ) from None
    except OSError as error:
        raise exception.ContentionError(
            f'the agent at {address}: {error.strerror or error}'
        ) from error
    if not text:
        raise exception.ContentionError(
            f'the agent at {address} could not answer: see its log'
        )
    return status.from_json(text.decode())
