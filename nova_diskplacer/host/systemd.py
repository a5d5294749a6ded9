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

"""Tells systemd that the agent is alive, if systemd wants to know.

The agent's unit has it killed and started again when it says so no more. The
protocol is that of sd_notify(3).
"""

import contextlib
import os
import socket

_SOCKET = 'NOTIFY_SOCKET'
_PATIENCE = 'WATCHDOG_USEC'
_WATCHED = 'WATCHDOG_PID'

# How many beats may be missed before it is held to be dead.
_BEATS = 3


def notify_ready(interval: float) -> None:
    """Say that the agent has started.

    systemd waits longer than the unit says where beats are farther apart.

    :param interval: seconds between two beats.
    """
    lines = ['READY=1']
    patience = _patience()
    least = int(_BEATS * interval * 1_000_000)
    if patience is not None and patience < least:
        lines.append(f'{_PATIENCE}={least}')
    _notify('\n'.join(lines))


def notify_watchdog() -> None:
    """Say that the agent is alive."""
    if _patience() is not None:
        _notify('WATCHDOG=1')


def _patience() -> int | None:
    """Return how many microseconds systemd waits; None: it does not."""
    watched = os.environ.get(_WATCHED)
    patience = os.environ.get(_PATIENCE)
    if not patience or watched not in (None, str(os.getpid())):
        return None
    return int(patience)


def _notify(message: str) -> None:
    address = os.environ.get(_SOCKET)
    if not address:
        return
    if address.startswith('@'):
        # an abstract one
        address = '\0' + address[1:]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifying,
        # whoever is not there to be told does not wait for it
        contextlib.suppress(OSError),
    ):
        notifying.sendto(message.encode(), address)
