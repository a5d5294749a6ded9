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


"""Where vdisks and connections of the guest are, by LVM and the kernel.

Nothing here asks the project's own code.
"""

import json
import pathlib
import re

from tools.minicloud import process
from tools.minicloud.state import State

#: {volume id: the disk of each logical volume of its vdisk}
Vdisks = dict[str, list[str]]

_PREFIX = 'diskplacer-'
_TARGETS = pathlib.Path('/sys/kernel/config/target/iscsi')
_BACKSTORES = pathlib.Path('/sys/kernel/config/target/core')
_SESSIONS = pathlib.Path('/sys/class/iscsi_session')
_UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
# each further leg that a disk has of an elastic vdisk has its number
_VOLUME = re.compile(rf'volume-({_UUID})(\.[0-9])?')


def disks(state: State, host: str) -> list[str]:
    """Return the disks of a host: the volume groups in its disk root."""
    found = state.disk_root(host).iterdir()
    return sorted(one.name for one in found if re.fullmatch(_UUID, one.name))


def vdisks(state: State, host: str) -> Vdisks:
    """Return the vdisks on the volume groups of a host."""
    listed = json.loads(
        process.run(
            *('lvs', '--options=vg_name,lv_name', '--reportformat=json')
        )
    )
    own = disks(state, host)
    found: Vdisks = {}
    for row in listed['report'][0]['lv']:
        disk = row['vg_name'].removeprefix(_PREFIX)
        match = _VOLUME.fullmatch(row['lv_name'])
        if disk in own and match:
            found.setdefault(match[1], []).append(disk)
    return {volume: sorted(legs) for volume, legs in found.items()}


def connections() -> list[str]:
    """Return all targets, backstores and sessions of the kernel's iSCSI."""
    found = [f'target {one.name}' for one in _TARGETS.glob('iqn*')]
    found += [
        f'backstore {one.parent.name}' for one in _BACKSTORES.glob('*/*/info')
    ]
    for one in _SESSIONS.glob('session*'):
        state = (one / 'state').read_text().strip()
        name = (one / 'targetname').read_text().strip()
        found.append(f'session {name} {state}')
    return sorted(found)


def mappings() -> list[str]:
    """Return the names of the device mapper's devices, of LVM and others."""
    found = pathlib.Path('/sys/block').glob('dm-*/dm/name')
    return sorted(one.read_text().strip() for one in found)
