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

"""Widths of a vdisk: the number of disks over which it is striped."""

import re

#: Largest width.
MAX = 64


def parse(text: str) -> tuple[int, int]:
    """Return the least and the largest width of an elastic vdisk.

    :param text: such as ``1-4``, the value of ``diskplacer:stripe_disks``.
    :raises ValueError: it is none.
    """
    found = re.fullmatch(r'([0-9]{1,2})-([0-9]{1,2})', text)
    if found:
        minimum, maximum = int(found[1]), int(found[2])
        if 1 <= minimum < maximum <= MAX:
            return minimum, maximum
    raise ValueError(
        f'diskplacer:stripe_disks={text} is not MIN-MAX, two integers with '
        f'1 <= MIN < MAX <= {MAX}, as diskplacer:mapping=elastic needs'
    )


def wider(width: int, maximum: int, factor: int) -> tuple[int, ...]:
    """Return the widths to which a vdisk may be widened, the best first.

    The best is ``factor`` times the width; where too few disks suit, as many
    as there are.
    """
    return tuple(range(min(maximum, width * factor), width, -1))


def narrower(width: int, minimum: int) -> tuple[int, ...]:
    """Return the widths to which a vdisk may be narrowed, the best first.

    The best is the least one; each is at most half of the next.
    """
    found = []
    while width > minimum:
        width = max(minimum, width // 2)
        found.append(width)
    return tuple(reversed(found))
