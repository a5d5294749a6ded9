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

"""Draws the record of an operation: a few are popular, most are not.

The distribution of YCSB's core workloads (P1 Table II, "Zipfian"): rank i of n
has a share of i^-θ divided by the sum of j^-θ over j from 1 to n, with θ 0.99.
"""

import math
import random

THETA = 0.99

# YCSB draws from as many ranks, whatever the number of records, so that the
# popularity of a record does not change when records are added.
_RANKS = 10**10

_EXACT = 1000
_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 1099511628211
_SIGN = 1 << 63
_WORD = (1 << 64) - 1


def zeta(n: int, theta: float = THETA) -> float:
    """Return the sum of i^-theta for i from 1 to n, theta not 1.

    The first thousand terms are added, and the rest is the formula of Euler
    and Maclaurin; the error is below 1e-9.
    """
    first = min(n, _EXACT)
    total = math.fsum(i**-theta for i in range(1, first + 1))
    if n == first:
        return total
    return total + _tail(n, theta) - _tail(first, theta)


def _tail(n: int, theta: float) -> float:
    x, power = float(n), 1 - theta
    tail: float = x**power / power + x**-theta / 2 - theta / x / x**theta / 12
    return tail


class Ranks:
    """Draws ranks, 0 the most popular, by the algorithm of Gray et al.

    "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994, §3.2,
    as in YCSB. The first two ranks are exact, the others an approximation by
    an integral.

    :param n: number of ranks, 3 or more.
    """

    def __init__(self, n: int, theta: float = THETA) -> None:
        self._n = n
        self._zeta = zeta(n, theta)
        self._two = 1 + 0.5**theta
        self._power = 1 / (1 - theta)
        self._eta = (1 - (2 / n) ** (1 - theta)) / (1 - self._two / self._zeta)

    def rank(self, u: float) -> int:
        """Return the rank of a uniform variable, from 0 to less than 1."""
        scaled = u * self._zeta
        if scaled < 1:
            return 0
        if scaled < self._two:
            return 1
        base = self._eta * u - self._eta + 1
        return min(int(self._n * base**self._power), self._n - 1)


class Records:
    """Draws records, numbered from 0, the popular ones anywhere among them.

    A hash scatters the ranks over the records as YCSB does, so that no page of
    the store holds the popular ones together.
    """

    def __init__(self, records: int, source: random.Random) -> None:
        self._records = records
        self._source = source
        self._ranks = Ranks(_RANKS)

    def draw(self) -> int:
        """Return the number of a record."""
        return fnv(self._ranks.rank(self._source.random())) % self._records


def fnv(number: int) -> int:
    """Return YCSB's hash of a number: the absolute value of FNV-1a, 64 bits.

    :param number: from 0 to 2^64 - 1; its bytes are taken from the lowest.
    """
    digest = _FNV_OFFSET
    for octet in number.to_bytes(8, 'little'):
        digest = (digest ^ octet) * _FNV_PRIME & _WORD
    return digest if digest < _SIGN else (1 << 64) - digest
