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

"""Sends the newest report in a thread of its own."""

import functools
import queue
import threading

import oslo_messaging

from nova_diskplacer import reports
from nova_diskplacer.host import log_once


class ReportSender:
    """Holds the newest report and sends it.

    The agent goes on while the message bus is away. A report that could not
    be sent replaces the next heartbeat.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._transport = transport
        self._newest: queue.Queue[reports.Report] = queue.Queue(1)
        self._failed: reports.Report | None = None
        self._send_log = log_once.RetryLogger(
            'Reports cannot be sent', 'Reports are sent again'
        )

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, report: reports.Report) -> None:
        """Replace the waiting message by a report or heartbeat.

        A heartbeat does not replace the report that it confirms. The call
        does not block as long as no two threads make it at once.
        """
        waiting: reports.Report | None
        try:
            waiting = self._newest.get_nowait()
        except queue.Empty:
            waiting = self._failed
        if waiting is not None and reports.is_heartbeat(report):
            report = waiting
        self._newest.put(report)

    def _run(self) -> None:
        while True:
            message = self._newest.get()
            send = functools.partial(
                reports.send_report, self._transport, message
            )
            sent = self._send_log.run(send)
            if not reports.is_heartbeat(message):
                self._failed = None if sent else message
