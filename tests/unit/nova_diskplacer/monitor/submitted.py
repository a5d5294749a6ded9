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

"""Requests as submitted to a disk, each a start and a length in bytes."""

import random

KIB = 1 << 10
GIB = 1 << 30


def stream(start, count, size):
    """Return requests of which each begins where another ended."""
    return [(start + number * size, size) for number in range(count)]


def scattered(count, size=4 * KIB, over=100 * GIB):
    """Return requests at random places, the same each time."""
    chance = random.Random(5)  # noqa: S311
    return [
        (chance.randrange(over // size) * size, size) for _ in range(count)
    ]
