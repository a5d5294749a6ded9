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

"""Sends the newest report, in a thread of its own."""

import functools
import queue
import threading

import oslo_messaging

from nova_diskplacer import reports
from nova_diskplacer.host import log_once


class Outbox:
    """Holds the newest report until it is sent.

    A message bus that is away must not keep the agent from its disks: a report
    that cannot be sent is sent in place of the next heartbeat.
    """

    def __init__(self, transport: oslo_messaging.Transport) -> None:
        self._transport = transport
        self._newest: queue.Queue[reports.Report] = queue.Queue(1)
        self._failed: reports.Report | None = None
        self._trouble = log_once.RetryLogger(
            'Reports cannot be sent', 'Reports are sent again'
        )

    def start(self) -> None:
        """Begin to send."""
        threading.Thread(target=self._run, daemon=True).start()

    def put(self, report: reports.Report) -> None:
        """Send a report or heartbeat next, instead of what still waits.

        A heartbeat does not take the place of the report that it confirms.
        Never blocks, if no two threads call it at once.
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
            sent = self._trouble.run(send)
            if not reports.is_heartbeat(message):
                self._failed = None if sent else message
