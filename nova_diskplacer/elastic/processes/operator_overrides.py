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

"""The operator's overrides of decisions, in a file of the disk root.

``diskplacer-manage elastic`` writes it; the agent and the executor read it.
"""

import collections.abc
import dataclasses
import os

from nova_diskplacer import exception
from nova_diskplacer.elastic import inputs
from nova_diskplacer.host import json_fields
from nova_diskplacer.host import state_file

FILE = 'elastic-orders.json'


@dataclasses.dataclass(frozen=True)
class _File:
    forbid_all: bool
    forbidden: tuple[str, ...]
    forced: dict[str, int]


def read(disk_root: str) -> inputs.Overrides:
    """Return the overrides of the host, none without a file.

    :raises ElasticError: the file cannot be used.
    """
    try:
        overrides = state_file.read(
            os.path.join(disk_root, FILE),
            _parse,
            'the orders of the operator',
            'remove the file and give the orders anew',
        )
    except exception.DiskError as error:
        raise exception.ElasticError(str(error)) from error
    return overrides or inputs.Overrides()


def _parse(fields: object) -> inputs.Overrides:
    content: _File = json_fields.typed(_File, fields)
    return inputs.Overrides(
        content.forbid_all, frozenset(content.forbidden), content.forced
    )


def change(
    disk_root: str,
    changed: collections.abc.Callable[[inputs.Overrides], inputs.Overrides],
) -> None:
    """Change the overrides; several processes may do so.

    :param changed: returns the new overrides for those of the host.
    :raises DiskPlacerError: the file cannot be used or written.
    """
    path = os.path.join(disk_root, FILE)
    with state_file.changing(path):
        overrides = changed(read(disk_root))
        fields = _File(
            overrides.forbid_all,
            tuple(sorted(overrides.forbidden)),
            dict(overrides.forced),
        )
        state_file.write(path, vars(fields), durable=True, mode=0o600)


def forbid(overrides: inputs.Overrides, vdisk: str) -> inputs.Overrides:
    """Return the overrides that forbid the moves of a vdisk, too."""
    overrides = allow(overrides, vdisk)
    return dataclasses.replace(
        overrides, forbidden=overrides.forbidden | {vdisk}
    )


def force(
    overrides: inputs.Overrides, vdisk: str, width: int
) -> inputs.Overrides:
    """Return the overrides that force a width of a vdisk, too."""
    overrides = allow(overrides, vdisk)
    return dataclasses.replace(
        overrides, forced={**overrides.forced, vdisk: width}
    )


def allow(overrides: inputs.Overrides, vdisk: str) -> inputs.Overrides:
    """Return the overrides without those for a vdisk."""
    return dataclasses.replace(
        overrides,
        forbidden=overrides.forbidden - {vdisk},
        forced={
            uuid: width
            for uuid, width in overrides.forced.items()
            if uuid != vdisk
        },
    )
