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

"""A server that measures, as its console shows it."""

import time

from diskplacer_measure.sweep.measure import servers
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer import exception

# Seconds that the clock of a server may differ: it has whole ones, and it is
# read from its console later.
_SKEW = 3.0
_LINES_TO_SHOW = 10


class MeasuringServer:
    """A server, and its output so far.

    ``ready`` is None until it can measure. ``measured`` and ``failed`` (with
    the reason) are by the cell's id. ``problem`` is the reason that nothing
    of it counts, or ''.

    :param id_: the server's ID in Nova.
    :param token: marks its lines.
    """

    def __init__(self, api: servers.Servers, id_: str, token: str) -> None:
        self.id = id_
        self.ready: workload.Ready | None = None
        self.measured: dict[str, workload.Measured] = {}
        self.failed: dict[str, str] = {}
        self.done = False
        self.problem = ''
        self._api = api
        self._token = token
        self._active = False
        self._looked = time.time()
        self._text = ''

    def look(self) -> None:
        """Read the console.

        :raises DiskPlacerError: the server cannot be built, or cannot measure.
        """
        self._active = self._active or self._api.is_active(self.id)
        if not self._active:
            return
        before, self._looked = self._looked, time.time()
        self._text = self._api.console(self.id)
        console = workload.parse(self._text, self._token)
        if console.error:
            raise exception.DiskPlacerError(
                f'server {self.id} cannot measure: {console.error}'
            )
        # a console has its last lines only
        self.measured |= console.measured
        self.failed |= console.failed
        self.done = self.done or console.done
        if console.ready and not self.ready:
            self.ready = console.ready
            self._check_clock(before, console.ready.now)

    def _check_clock(self, before: float, server_time: int) -> None:
        """Compare the clock of the server with that of the host.

        :param before: time of the look before.
        :param server_time: the time that the server has printed since.
        """
        now = time.time()
        if not before - _SKEW <= server_time <= now + _SKEW:
            self.problem = (
                f'the clock of server {self.id} differs from that of the host '
                f'by about {server_time - now:.0f} s'
            )

    def last_lines(self) -> str:
        """Return the last lines of the console, for people."""
        lines = self._text.splitlines()[-_LINES_TO_SHOW:]
        return '\n'.join(lines) or 'none'

    def has_answered(self, id_: str) -> bool:
        """Return whether the server has printed the end of a cell."""
        return id_ in self.measured or id_ in self.failed

    def problem_of(self, id_: str, end: float) -> str:
        """Return why there is no result of a cell, '' if there is one.

        :param end: when the cell had to end, in seconds since the epoch.
        """
        if id_ in self.failed:
            return f'server {self.id}: {self.failed[id_]}'
        measured = self.measured.get(id_)
        if measured is None:
            return f'server {self.id} reported nothing'
        # its clock has whole seconds
        if measured.began + measured.seconds > end + 1:
            return f'server {self.id} overran its time'
        return ''
