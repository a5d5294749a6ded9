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

"""Links that resolve in the process of one server only.

In every other process the link leads nowhere. When QEMU leaves one copy
of a vdisk for the other one, QEMU opens the path of the first again, and
then libvirt takes that path's device from QEMU. The path of a server is
the link, which leads to the second copy by then, and QEMU needs that one.
A parked link is right for QEMU, and libvirt takes nothing. No server can
start from the link until :func:`unpark`, whatever dies.
"""

import time

from nova_diskplacer.disks import links
from nova_diskplacer.host import files
from nova_diskplacer.host import processes

# Times, and seconds between them, to look for the process that has a vdisk
# open: udev may have it open for a moment, too.
_LOOKS = 20
_LOOK_PAUSE = 0.1


def park(disk_root: str, name: str) -> bool:
    """Make the link of a vdisk resolve only in the process that has it open.

    :returns: whether it is parked; not if it is not one process that has it
        open, or this is not known.
    :raises DiskError: the link cannot be made.
    """
    place = links.path(disk_root, name)
    target = links.read(disk_root, name)
    if not target:
        return False
    for look in range(_LOOKS):
        if look:
            time.sleep(_LOOK_PAUSE)
        try:
            holders = processes.holders(target)
        except OSError:
            continue
        if not holders:
            break
        if len(holders) == 1:
            files.replace_link(place, links.PARKED % holders[0] + target)
            return True
    return False


def unpark(disk_root: str, name: str) -> None:
    """Make the link of a vdisk resolve in every process; repeatable.

    :raises DiskError: the link cannot be read or made.
    """
    place = links.path(disk_root, name)
    text = files.read_link(place)
    if text != links.unparked(text):
        files.replace_link(place, links.unparked(text))
