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

"""The operator's orders, in a file of the disk root.

``diskplacer-manage elastic`` writes it; the agent and the executor read it.
"""

import collections.abc
import dataclasses
import fcntl
import json
import os

from nova_diskplacer import exception
from nova_diskplacer.elastic import host
from nova_diskplacer.host import files
from nova_diskplacer.host import json_lines

FILE = 'elastic-orders.json'


@dataclasses.dataclass(frozen=True)
class _File:
    forbid_all: bool
    forbidden: tuple[str, ...]
    forced: dict[str, int]


def read(disk_root: str) -> host.Orders:
    """Return the orders of the host, none without a file.

    :raises ElasticError: the file cannot be used.
    """
    path = os.path.join(disk_root, FILE)
    try:
        with open(path, 'rb') as stream:
            content = json_lines.parse(stream.read(), _File)
        return host.Orders(
            content.forbid_all, frozenset(content.forbidden), content.forced
        )
    except FileNotFoundError:
        return host.Orders()
    except (OSError, ValueError) as error:
        raise exception.ElasticError(
            f'{path}: {error}: remove the file and give the orders anew'
        ) from error


def change(
    disk_root: str, order: collections.abc.Callable[[host.Orders], host.Orders]
) -> None:
    """Change the orders; several processes may do so.

    :raises DiskPlacerError: the file cannot be used or written.
    """
    path = os.path.join(disk_root, FILE)
    with (
        files.disk_errors(path),
        files.opened(disk_root, os.O_RDONLY | os.O_DIRECTORY) as directory,
    ):
        fcntl.flock(directory, fcntl.LOCK_EX)
        orders = order(read(disk_root))
        fields = _File(
            orders.forbid_all,
            tuple(sorted(orders.forbidden)),
            dict(orders.forced),
        )
        text = json.dumps(vars(fields))
        files.replace(path, text, durable=True, mode=0o600)


def forbid(orders: host.Orders, vdisk: str) -> host.Orders:
    """Return the orders that forbid the moves of a vdisk, too."""
    orders = allow(orders, vdisk)
    return dataclasses.replace(orders, forbidden=orders.forbidden | {vdisk})


def force(orders: host.Orders, vdisk: str, width: int) -> host.Orders:
    """Return the orders that force a width of a vdisk, too."""
    orders = allow(orders, vdisk)
    return dataclasses.replace(orders, forced={**orders.forced, vdisk: width})


def allow(orders: host.Orders, vdisk: str) -> host.Orders:
    """Return the orders without those for a vdisk."""
    return dataclasses.replace(
        orders,
        forbidden=orders.forbidden - {vdisk},
        forced={
            uuid: width
            for uuid, width in orders.forced.items()
            if uuid != vdisk
        },
    )
