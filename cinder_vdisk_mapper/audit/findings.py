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

"""The findings of an audit."""

import collections.abc
import dataclasses

# Repairs of ``audit --repair``.
DELETE = 'delete'
RECORD = 'record'
EXTEND = 'extend'
CLAIM = 'claim'
RELEASE = 'release'
PUBLISH = 'publish'
LINK = 'link'
UNLINK = 'unlink'
FOLLOW = 'follow'
DETACH = 'detach'

#: kind of a finding: the vdisk of a deleted volume or snapshot
ORPHAN = 'orphan'


@dataclasses.dataclass(frozen=True)
class Finding:
    """A disagreement of Cinder, the disks, Placement and Nova.

    ``repair`` is the repair by ``--repair``, '' without any. ``advice`` is
    what an operator can do otherwise.
    """

    kind: str
    disk: str
    vdisk: str = ''
    owner: str = ''
    message: str = ''
    repair: str = ''
    advice: str = ''


Findings = collections.abc.Iterator[Finding]


def removal_command(disk: str, vdisk: str) -> str:
    """Return the command that removes a vdisk."""
    return f'diskplacer-manage disk remove-vdisk {disk} {vdisk}'
