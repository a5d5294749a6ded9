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

"""Runs tasks that are retried, and logs when failures begin and end."""

import collections.abc
import time

import oslo_messaging
from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

# Errors whose messages need no traceback.
_EXPECTED = (
    exception.DiskPlacerError,
    oslo_messaging.MessagingException,
    OSError,
)


class RetryLogger:
    """Runs a task that is retried; logs when failures begin, change and end.

    Failures of the same type are the same failure; other texts of it are
    logged at debug level. ``failures`` counts all,
    ``succeeded`` is the time of the last success (seconds since the epoch, 0
    before the first).
    """

    def __init__(self, failure: str, recovery: str) -> None:
        self._failure = failure
        self._recovery = recovery
        self._last: type[Exception] | None = None
        self._text = ''
        self.failures = 0
        self.succeeded = 0.0

    def run(self, task: collections.abc.Callable[[], None]) -> bool:
        """Run the task; returns whether it succeeded, and never raises."""
        error = None
        try:
            task()
        except Exception as raised:
            error = raised
        # oslo.log appends an exception that is being handled: log after that
        before, text = self._last, self._text
        self._last = None if error is None else type(error)
        self._text = str(error)
        if error is None:
            self.succeeded = time.time()
            if before is not None:
                LOG.info('%s.', self._recovery)
            return True
        self.failures += 1
        if type(error) is before:
            if self._text != text:
                LOG.debug('%s: %s', self._failure, error)
        else:
            LOG.warning(
                '%s, trying again: %s',
                self._failure,
                error,
                exc_info=None if isinstance(error, _EXPECTED) else error,
            )
        return False
