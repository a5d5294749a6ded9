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

"""Claims that Nova may be about to make for requests of this worker.

Contract with Nova: Nova reports to a filter neither a failed claim nor the
end of a request. Two side effects of Nova's show them:
``HostState.num_instances`` grows when a server has been claimed, and the
allocation candidate is garbage collected when the request is over.
``nova_internals`` checks at start that Nova still does both.
"""

import collections.abc
import threading
import time
import typing
import weakref

T = typing.TypeVar('T', bound=collections.abc.Hashable)

#: Time in seconds after which a pending claim is forgotten.
SECONDS = 20.0


class ExpiringSet(typing.Generic[T]):
    """Items that are forgotten SECONDS after they were added.

    Serves all threads of a scheduler worker.

    :param clock: monotonic time in seconds.
    """

    def __init__(
        self, clock: collections.abc.Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._expiry: dict[T, float] = {}

    def add(self, item: T) -> None:
        """Add an item, and drop those that have expired."""
        now = self._clock()
        with self._lock:
            self._expiry = {
                tracked: expiry
                for tracked, expiry in self._expiry.items()
                if expiry > now
            }
            self._expiry[item] = now + SECONDS

    def remove(self, item: T) -> bool:
        """Remove an item; return False if it has been removed before."""
        with self._lock:
            return self._expiry.pop(item, None) is not None

    def items(self) -> list[T]:
        """Return the items that have not expired, oldest first."""
        now = self._clock()
        with self._lock:
            return [item for item, end in self._expiry.items() if end > now]


class Candidate(dict[str, typing.Any]):
    """An allocation candidate by which Nova claims.

    A ``dict`` that can be weakly referenced. Only Nova keeps a strong
    reference to it.
    """


class PendingClaim:
    """A claim on a host that Nova may be about to make.

    :param host: the host's state in that request.
    :param release: undoes what was recorded for the claim.
    """

    def __init__(
        self, host: typing.Any, release: collections.abc.Callable[[], None]
    ) -> None:
        self.release = release
        self._host = host
        self._instances = host.num_instances
        self._candidate: weakref.ref[Candidate] | None = None

    def track(self, candidate: Candidate) -> None:
        """Take the claim as pending while Nova keeps the candidate."""
        self._candidate = weakref.ref(candidate)

    @property
    def is_made(self) -> bool:
        """Return whether Nova has claimed."""
        made: bool = self._host.num_instances > self._instances
        return made

    @property
    def is_over(self) -> bool:
        """Return whether Nova has dropped the candidate."""
        return self._candidate is not None and self._candidate() is None

    @property
    def has_failed(self) -> bool:
        """Return whether nothing is claimed.

        Nova removes the allocations of all servers of a request if there is
        no host for one of them, and resets ``updated`` of their hosts' states.
        """
        return not self.is_made or self._host.updated is None


class PendingClaims(ExpiringSet[PendingClaim]):
    """The pending claims of a scheduler worker.

    A claim that takes long expires together with its pending choice.
    """

    def fail(self, claim: PendingClaim) -> None:
        """Release a claim that was not made."""
        if self.remove(claim):
            claim.release()

    def release_failed(self) -> None:
        """Release the claims of finished requests that were not made."""
        for claim in self.items():
            if claim.is_over and self.remove(claim) and claim.has_failed:
                claim.release()
