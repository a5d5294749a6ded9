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

"""What the vdisks of Cinder's objects are called.

Anything else on a disk is foreign: it counts, and is left alone.
"""

from typing import Any

_VOLUME = 'volume-'
_SNAPSHOT = 'snapshot-'


def volume(volume: Any) -> str:
    """Return the name of a volume's vdisk."""
    return f'{_VOLUME}{volume.name_id}'


def snapshot(snapshot: Any) -> str:
    """Return the name of a snapshot's vdisk."""
    return f'{_SNAPSHOT}{snapshot.id}'


def unmanaged(id_: str) -> str:
    """Return the name of a vdisk that Cinder has let go of.

    :param id_: what its name ended in before.
    """
    return f'unmanaged-{id_}'


def volume_id(name: str) -> str | None:
    """Return what a volume's vdisk is named by; None if it is not one."""
    return name.removeprefix(_VOLUME) if name.startswith(_VOLUME) else None


def snapshot_id(name: str) -> str | None:
    """Return the snapshot that a vdisk is; None if it is not one."""
    if name.startswith(_SNAPSHOT):
        return name.removeprefix(_SNAPSHOT)
    return None
