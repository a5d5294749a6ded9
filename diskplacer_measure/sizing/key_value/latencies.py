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

"""The latencies of operations, as P1 §III-A, Fig. 4 draws them."""

import collections.abc
import dataclasses
import math

#: Parts of all operations, for the quantiles.
QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)


@dataclasses.dataclass(frozen=True)
class Latencies:
    """The latencies of one kind of operations, in seconds.

    ``quantiles`` has a time for each of ``QUANTILES`` as text, which that part
    of the operations did not exceed. ``below_1_ms`` and ``from_10_to_30_ms``
    are the parts that P1 §III-A states: answers from memory, and those that
    waited for its hard disk.
    """

    operations: int
    mean: float
    quantiles: dict[str, float]
    below_1_ms: float
    from_10_to_30_ms: float


def summarize(seconds: collections.abc.Iterable[float]) -> Latencies | None:
    """Return the distribution of latencies, None without operations."""
    values = sorted(seconds)
    count = len(values)
    if not count:
        return None
    return Latencies(
        operations=count,
        mean=sum(values) / count,
        quantiles={
            # the smallest value that so many do not exceed
            f'{part:g}': values[math.ceil(part * count) - 1]
            for part in QUANTILES
        },
        below_1_ms=sum(value < 1e-3 for value in values) / count,
        from_10_to_30_ms=sum(0.01 <= value <= 0.03 for value in values)
        / count,
    )
