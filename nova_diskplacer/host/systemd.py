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

"""Notifies systemd by the protocol of sd_notify(3).

systemd kills and restarts the agent when notifications of its watchdog stop.
"""

import contextlib
import os
import socket

_TIMEOUT = 'WATCHDOG_USEC'

# The minimal timeout of the watchdog, in intervals between notifications.
_MIN_INTERVALS = 3


def notify_ready(interval: float = 0) -> None:
    """Notify systemd that the service has started.

    The watchdog's timeout is raised if it is too short for the interval.

    :param interval: seconds between two notifications of the watchdog; 0
        for a service without it.
    """
    lines = ['READY=1']
    timeout = _timeout_us()
    minimum = int(_MIN_INTERVALS * interval * 1_000_000)
    if timeout is not None and timeout < minimum:
        lines.append(f'{_TIMEOUT}={minimum}')
    _notify('\n'.join(lines))


def notify_watchdog() -> None:
    """Notify the watchdog that the agent is alive."""
    if _timeout_us() is not None:
        _notify('WATCHDOG=1')


def _timeout_us() -> int | None:
    """Return the watchdog's timeout in microseconds, None without one."""
    pid = os.environ.get('WATCHDOG_PID')
    timeout = os.environ.get(_TIMEOUT)
    if not timeout or pid not in (None, str(os.getpid())):
        return None
    return int(timeout)


def _notify(message: str) -> None:
    address = os.environ.get('NOTIFY_SOCKET')
    if not address:
        return
    if address.startswith('@'):
        # an abstract socket
        address = '\0' + address[1:]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender,
        # services work without systemd, too
        contextlib.suppress(OSError),
    ):
        sender.sendto(message.encode(), address)
