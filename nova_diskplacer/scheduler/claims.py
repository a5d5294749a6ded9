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

"""Claims that Nova is making for requests of this scheduler worker.

Nova tells a filter neither that a claim has failed nor that a request is over.
It counts a claimed server on the host's state, and drops the candidate that it
claims by when the request is over.
"""

import collections.abc
import threading
import time
import typing
import weakref

#: How long a claim may take to be seen, in seconds.
SECONDS = 20.0


class Candidate(dict[str, typing.Any]):
    """An allocation candidate that Nova is about to claim by.

    Nobody but Nova keeps a reference to it.
    """


class Claim:
    """A claim on a host that Nova is about to make.

    :param host: the host's state in that request.
    :param let_go: undoes what was put down for the claim.
    """

    def __init__(
        self, host: typing.Any, let_go: collections.abc.Callable[[], None]
    ) -> None:
        self.let_go = let_go
        self._host = host
        self._instances = host.num_instances
        self._candidate: weakref.ref[Candidate] | None = None

    def hand_out(self, candidate: Candidate) -> None:
        """Go by a candidate as long as Nova keeps it."""
        self._candidate = weakref.ref(candidate)

    @property
    def is_made(self) -> bool:
        """Tell that Nova has claimed."""
        made: bool = self._host.num_instances > self._instances
        return made

    @property
    def is_over(self) -> bool:
        """Tell that Nova has dropped the candidate."""
        return self._candidate is not None and self._candidate() is None

    @property
    def is_given_back(self) -> bool:
        """Tell that Nova has claimed and given back.

        It does so for all servers of a request if there is no host for one of
        them, and wants the states of their hosts to be read anew.
        """
        return self.is_made and self._host.updated is None


class UnderWay:
    """The claims of a scheduler worker that may still be made.

    :param clock: monotonic time in seconds.
    """

    def __init__(
        self, clock: collections.abc.Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._claims: dict[Claim, float] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claim: Claim) -> None:
        """Look after a claim."""
        with self._lock:
            self._claims[claim] = self._clock() + SECONDS

    def fail(self, claim: Claim) -> None:
        """Let go of a claim that was not made."""
        with self._lock:
            known = self._claims.pop(claim, None)
        if known is not None:
            claim.let_go()

    def settle(self) -> None:
        """Let go of what was dropped and not claimed.

        Claims that take long are forgotten: what is held for them expires.
        """
        if not self._claims:
            return
        now = self._clock()
        with self._lock:
            over = [claim for claim in self._claims if claim.is_over]
            self._claims = {
                claim: until
                for claim, until in self._claims.items()
                if until > now and claim not in over
            }
        for claim in over:
            if not claim.is_made or claim.is_given_back:
                claim.let_go()
