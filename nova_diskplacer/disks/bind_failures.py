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

import contextlib
import fcntl
import json
import os

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import log_once

LOG = logging.getLogger(__name__)

# The file is read whenever metrics are.
_unreadable = log_once.ChangeLogger(LOG)

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
        cannot be written to.
    """
    if reason not in REASONS:
        raise exception.DiskError(
            f'{reason!r} is not one of: {", ".join(REASONS)}'
        )
    path = os.path.join(disk_root, FILE)
    with (
        files.disk_errors(path),
        files.opened(disk_root, os.O_RDONLY | os.O_DIRECTORY) as directory,
    ):
        fcntl.flock(directory, fcntl.LOCK_EX)
        counts = read(disk_root)
        counts[reason] += 1
        files.replace(path, json.dumps(counts), durable=False)


def read(disk_root: str) -> dict[str, int]:
    """Return the number of failures by reason.

    They are 0 where the file is missing or unreadable.
    """
    counts = dict.fromkeys(REASONS, 0)
    path = os.path.join(disk_root, FILE)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        try:
            with open(path, encoding='utf-8') as stream:
                found = json.load(stream)
            counts |= {reason: int(found[reason]) for reason in REASONS}
            _unreadable.clear(path)
        except (KeyError, TypeError, ValueError) as error:
            _unreadable.log(path, '%s is not used: %s', path, error)
    return counts
