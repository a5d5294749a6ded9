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

"""Says that something is wrong once, not every time it is tried."""

import oslo_messaging
from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

# Errors that are explained by what they say.
_KNOWN = (
    exception.DiskPlacerError,
    oslo_messaging.MessagingException,
    OSError,
)


class Trouble:
    """Logs a trouble when it begins, when its kind changes, when it ends.

    :param begins: what is wrong.
    :param ends: what is right again.
    """

    def __init__(self, begins: str, ends: str) -> None:
        self._begins = begins
        self._ends = ends
        self._kind: type[Exception] | None = None

    def say(self, error: Exception) -> None:
        """Log ``error`` if it is the first of its kind in a row."""
        if type(error) is self._kind:
            LOG.debug('%s: %s', self._begins, error)
            return
        self._kind = type(error)
        known = isinstance(error, _KNOWN)
        LOG.warning(
            '%s, trying again: %s',
            self._begins,
            error,
            exc_info=None if known else error,
        )

    def over(self) -> None:
        """Log the end of the trouble if there was any."""
        if self._kind is not None:
            LOG.info('%s.', self._ends)
        self._kind = None
