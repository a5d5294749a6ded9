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

"""Repeats requests to services that are away for seconds, as in a restart.

The connection retries of keystoneauth have no limit of time: with each, a
service that accepts connections and never answers takes another ``timeout``.
Nor do they cover the requests for a token.
"""

import collections.abc
import logging
import time
import typing

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exc

LOG = logging.getLogger(__name__)

#: Time in seconds from the first attempt in which a request is repeated. Half
#: of what Cinder's API waits for cinder-volume (``rpc_response_timeout``): an
#: operation asks both Nova and Placement.
SECONDS = 30.0

# Statuses with which proxies and services answer while a service is away.
_AWAY = frozenset((502, 503, 504))

# Time in seconds before the second attempt; it doubles up to the maximum.
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 4.0

# Least time in seconds that an attempt gets.
_LEAST = 1.0

T = typing.TypeVar('T')


def repeat(
    request: collections.abc.Callable[[float], T],
    timeout: float,
    is_away: collections.abc.Callable[[T], bool] = lambda answer: False,
) -> T:
    """Return the answer to a request, repeated while the service is away.

    All attempts together take no longer than ``timeout``, unless Keystone
    hangs meanwhile: a request for a token has a timeout of its own.

    :param request: safe to repeat, also if only its answer was lost; called
        with the seconds that it may take.
    :param timeout: time in seconds that one attempt may take.
    :param is_away: whether an answer says that the service is away. The last
        one is returned.
    :raises Exception: what the last attempt raised.
    """
    start = time.monotonic()
    delay = _FIRST_DELAY
    while True:
        left = timeout - (time.monotonic() - start)
        try:
            answer = request(max(left, _LEAST))
        except Exception as error:
            if not _is_away(error) or _is_over(start, delay, timeout):
                raise
            reason: object = error
        else:
            if not is_away(answer) or _is_over(start, delay, timeout):
                return answer
            reason = answer
        LOG.debug('A request is repeated in %.1f s: %s', delay, reason)
        time.sleep(delay)
        delay = min(2 * delay, _LONGEST_DELAY)


def _is_over(start: float, delay: float, timeout: float) -> bool:
    spent = time.monotonic() - start + delay
    return spent >= min(SECONDS, timeout)


def _is_away(error: Exception) -> bool:
    """Return whether an error of a client says that a service is away."""
    if isinstance(
        error, (ks_exc.RetriableConnectionFailure, ks_exc.DiscoveryFailure)
    ):
        return True
    # of keystoneauth and of novaclient
    status = getattr(error, 'http_status', getattr(error, 'code', None))
    return status in _AWAY


class Adapter(adapter.Adapter):
    """A keystoneauth adapter whose requests are all safe to repeat.

    The session has a timeout.
    """

    def request(
        self, url: str, method: str, **arguments: typing.Any
    ) -> typing.Any:
        """Send a request, see ``repeat``."""
        send = super().request
        return repeat(
            lambda left: send(url, method, **{'timeout': left, **arguments}),
            self.session.timeout,
            lambda response: response.status_code in _AWAY,
        )
