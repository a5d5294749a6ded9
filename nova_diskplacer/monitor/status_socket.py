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

"""Serves the agent's status at a Unix socket, as JSON."""

import os
import socketserver

from nova_diskplacer.host import agent_socket
from nova_diskplacer.monitor import status


def path(state_dir: str) -> str:
    """Return the path of the socket."""
    return os.path.join(state_dir, 'agent.sock')


def serve(
    state_dir: str, provider: status.StatusProvider
) -> socketserver.BaseServer:
    """Serve the status in threads.

    :raises AgentError: the socket cannot be created.
    """
    return agent_socket.serve(
        path(state_dir), lambda: status.to_json(provider())
    )


def fetch(state_dir: str, timeout: float = 10.0) -> status.Status | None:
    """Return the status of the agent of this host.

    :param timeout: in seconds.
    :returns: None before the agent's first interval.
    :raises AgentError: the agent is not running or does not answer, or the
        format is unknown.
    """
    return status.from_json(agent_socket.fetch(path(state_dir), timeout))
