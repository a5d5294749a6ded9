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

import collections.abc

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
    """Tries things that may fail for long.

    Logs a failure when it begins, when its kind changes and when it ends.

    :param begins: what is wrong.
    :param ends: what is right again.
    """

    def __init__(self, begins: str, ends: str) -> None:
        self._begins = begins
        self._ends = ends
        self._kind: type[Exception] | None = None

    def attempt(self, work: collections.abc.Callable[[], None]) -> bool:
        """Do ``work``; returns whether it went well, and raises nothing."""
        error = _failure(work)
        kind = None if error is None else type(error)
        if error is None:
            if self._kind is not None:
                LOG.info('%s.', self._ends)
        elif kind is self._kind:
            LOG.debug('%s: %s', self._begins, error)
        else:
            LOG.warning(
                '%s, trying again: %s',
                self._begins,
                error,
                exc_info=None if isinstance(error, _KNOWN) else error,
            )
        self._kind = kind
        return error is None


def _failure(work: collections.abc.Callable[[], None]) -> Exception | None:
    # logged after this returns: oslo.log repeats exceptions under way
    try:
        work()
    except Exception as error:
        return error
    return None
