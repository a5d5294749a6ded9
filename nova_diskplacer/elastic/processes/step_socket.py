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

"""The request of the executor for the step that the agent wants.

It has a socket and a version of its own, so that agents and executors of
different releases work together, whatever else changes in the agent's status.
A release that adds a field leaves the version as it is, because readers ignore
fields that they do not know. One that gives a field another meaning raises it,
so that an executor of another release moves nothing.
"""

import collections.abc
import dataclasses
import json
import os
import socketserver
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import agent_socket
from nova_diskplacer.host import json_fields
from nova_diskplacer.monitor import elastic_status

#: Version of the format.
VERSION = 1

#: Returns the step that the agent wants, None without one.
WantedStep = collections.abc.Callable[[], elastic_status.WantedStep | None]

_FIELDS = [
    field.name for field in dataclasses.fields(elastic_status.WantedStep)
]


def path(state_dir: str) -> str:
    """Return the path of the socket."""
    return os.path.join(state_dir, 'elastic.sock')


def serve(state_dir: str, wanted_step: WantedStep) -> socketserver.BaseServer:
    """Serve the wanted step in threads.

    :raises AgentError: the socket cannot be created.
    """
    return agent_socket.serve(path(state_dir), lambda: _to_json(wanted_step()))


def fetch(
    state_dir: str, timeout: float = 10.0
) -> elastic_status.WantedStep | None:
    """Return the step that the agent of this host wants, None without one.

    :param timeout: in seconds.
    :raises AgentError: the agent is not running or does not answer, or the
        version is another one.
    """
    address = path(state_dir)
    text = agent_socket.fetch(address, timeout)
    try:
        answer: Any = json.loads(text)
        if answer['version'] != VERSION:
            raise ValueError(f'version {answer["version"]} is not {VERSION}')
        step = answer['step']
        if step is None:
            return None
        fields = {name: step[name] for name in _FIELDS}
        wanted_step: elastic_status.WantedStep = json_fields.typed(
            elastic_status.WantedStep, fields
        )
    except (KeyError, TypeError, ValueError) as error:
        raise exception.AgentError(
            f'the step at {address} has an unknown format ({error}): upgrade '
            'the older one of diskplacer-agent and "elastic run"'
        ) from error
    return wanted_step


def _to_json(step: elastic_status.WantedStep | None) -> str:
    return json.dumps(
        {
            'version': VERSION,
            'step': dataclasses.asdict(step) if step else None,
        }
    )
