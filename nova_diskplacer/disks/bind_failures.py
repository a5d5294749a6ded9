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

"""Counts the volumes of this host that could not be bound, in the disk root.

The Cinder driver counts and the agent reads: they are two processes of two
users, and the disk root is what both know and only root can write to.
"""

import os
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import state_file

FILE = 'bind-failures.json'

REFUSED = 'refused'
DISK = 'disk'
PLACEMENT = 'placement'
NOVA = 'nova'
OTHER = 'other'
REASONS = (REFUSED, DISK, PLACEMENT, NOVA, OTHER)


def count(disk_root: str, reason: str) -> None:
    """Add one to the failures of a reason; several processes may do so.

    :raises DiskError: the reason is not one of ``REASONS``, or the disk root
        cannot be written to, or another process changes the file for long.
    """
    if reason not in REASONS:
        raise exception.DiskError(
            f'{reason!r} is not one of: {", ".join(REASONS)}'
        )
    path = os.path.join(disk_root, FILE)
    with state_file.changing(path):
        counts = read(disk_root)
        counts[reason] += 1
        state_file.write(path, counts, durable=False)


def read(disk_root: str) -> dict[str, int]:
    """Return the number of failures by reason.

    They are 0 where the file is missing or unreadable.
    """
    counts = state_file.read_usable(
        os.path.join(disk_root, FILE), _parse, 'counts of failures'
    )
    return counts or dict.fromkeys(REASONS, 0)


def _parse(fields: Any) -> dict[str, int]:
    return {reason: int(fields[reason]) for reason in REASONS}
