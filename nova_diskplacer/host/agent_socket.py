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

"""Answers of the agent at a Unix socket, to which only root can connect.

The agent sends its answer and closes the connection; it reads nothing.
"""

import collections.abc
import contextlib
import os
import socket
import socketserver
import threading

from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

# Seconds that a client may take to read the answer.
_SEND_TIMEOUT = 5.0

#: Returns the answer; threads call it.
Answer = collections.abc.Callable[[], str]


class _Handler(socketserver.BaseRequestHandler):
    server: '_Server'
    request: socket.socket

    def handle(self) -> None:
        text = self.server.answer()
        self.request.settimeout(_SEND_TIMEOUT)
        # the client may have closed the connection
        with contextlib.suppress(OSError):
            self.request.sendall(text.encode())


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, answer: Answer) -> None:
        super().__init__(path, _Handler, bind_and_activate=False)
        self.answer = answer

    def handle_error(self, request: object, client_address: object) -> None:
        LOG.exception('No answer could be sent at %s.', self.server_address)


def serve(path: str, answer: Answer) -> socketserver.BaseServer:
    """Serve answers in threads.

    This replaces the socket of an earlier agent.

    :raises AgentError: the socket cannot be created.
    """
    new = path + '.new'
    server = _Server(new, answer)
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        server.server_bind()
        # clients cannot connect before the server listens
        os.chmod(new, 0o600)
        server.server_activate()
        os.rename(new, path)
    except OSError as error:
        server.server_close()
        raise exception.AgentError(
            f'the socket {path}, see [diskplacer_agent] state_dir: '
            f'{error.strerror or error}'
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def fetch(path: str, timeout: float = 10.0) -> str:
    """Return the answer of the agent of this host.

    :param timeout: in seconds.
    :raises AgentError: the agent is not running or does not answer.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(path)
            with connection.makefile('rb') as stream:
                text = stream.read()
    except (FileNotFoundError, ConnectionRefusedError):
        raise exception.AgentError(
            f'no agent answers at {path}: start diskplacer-agent, upgrade it '
            'if it is older than this command, or check that its '
            '[diskplacer_agent] state_dir is the same'
        ) from None
    except PermissionError:
        raise exception.AgentError(
            f'{path}: only root can connect to the agent'
        ) from None
    except OSError as error:
        raise exception.AgentError(
            f'the agent at {path}: {error.strerror or error}'
        ) from error
    if not text:
        raise exception.AgentError(
            f'the agent at {path} could not answer: see its log'
        )
    return text.decode()
