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


"""The progress of data that follows servers to this host.

What settles the data writes a file below the disk root, and the agent reads
it: they are two processes that must not wait for each other. The links to the
vdisks of other hosts tell what there is to settle where it does not run.
"""

import dataclasses

from nova_diskplacer.disks import links
from nova_diskplacer.host import state_file

#: What is done with a vdisk: its data is copied, or is not now; the host that
#: has it does not answer; or an attempt has failed and is repeated.
COPYING, WAITING, AWAY, FAILED = 'copying', 'waiting', 'away', 'failed'

STATES = (COPYING, WAITING, AWAY, FAILED)

# Seconds after which what writes nothing is taken for dead.
_SILENT = 180.0

_NOBODY = 'the service diskplacer-settle does not run on this host'
_OTHER = (
    'the service diskplacer-settle is of another release, whose state cannot '
    'be read'
)


@dataclasses.dataclass(frozen=True)
class VDisk:
    """The vdisk of a server that has moved here before its data.

    ``source`` is the host that has the data, ``disk`` the UUID of the disk
    here. ``done`` and ``total`` are bytes, ``first`` those that were done
    when the copy was ``began``. ``moved`` is when there were last more than
    ever before, or the vdisk was found; both in seconds since the epoch.
    ``reason`` tells why it waits or has failed.
    """

    volume: str
    name: str
    server: str
    source: str
    disk: str
    state: str
    moved: float
    began: float = 0.0
    first: int = 0
    done: int = 0
    total: int = 0
    reason: str = ''

    @property
    def percent(self) -> int:
        """Percent of its data that are here."""
        return 100 * self.done // self.total if self.total else 0

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until the copy ends, None if not known."""
        copied = self.done - self.first
        if self.state != COPYING or copied <= 0 or now <= self.began:
            return None
        return (self.total - self.done) * (now - self.began) / copied

    def stalled(self, now: float) -> float:
        """Return the seconds for which it has come no further.

        It is 0 while its data is not to be copied.
        """
        return 0.0 if self.state == WAITING else max(0.0, now - self.moved)


@dataclasses.dataclass(frozen=True)
class Settling:
    """The vdisks below a disk root whose data has not followed yet.

    ``time`` is when this was written, in seconds since the epoch.
    """

    time: float
    vdisks: tuple[VDisk, ...] = ()


#: the state, in the disk root
FILE = state_file.FieldsFile(
    'settling.json', Settling, 'the state of settling', mode=0o644
)


def of_host(disk_root: str, now: float) -> tuple[VDisk, ...]:
    """Return the vdisks whose data has not followed, settled or not.

    :param now: seconds since the epoch.
    :raises DiskError: the links cannot be read.
    """
    settling = FILE.read(disk_root)
    if settling and now - settling.time < _SILENT:
        return settling.vdisks
    last_seen = (
        {vdisk.name: vdisk for vdisk in settling.vdisks} if settling else {}
    )
    is_other = not settling and FILE.age(disk_root, now) < _SILENT
    reason = _OTHER if is_other else _NOBODY
    vdisks = []
    for name in links.remotes(disk_root):
        vdisk = last_seen.get(name) or VDisk(
            name.removeprefix('volume-'),
            name,
            '',
            '',
            '',
            FAILED,
            links.remote_since(disk_root, name),
        )
        vdisks.append(dataclasses.replace(vdisk, state=FAILED, reason=reason))
    return tuple(vdisks)


def describe(vdisk: VDisk, now: float) -> str:
    """Return how far a vdisk is, in words.

    :param now: seconds since the epoch.
    """
    text = f'moving {vdisk.percent} % from {vdisk.source or "another host"}'
    left = vdisk.seconds_left(now)
    if left is not None:
        return f'{text}, {int(left) // 60} min {int(left) % 60} s left'
    if vdisk.state == COPYING:
        return text
    return f'{text}, {vdisk.state}' + (
        f': {vdisk.reason}' if vdisk.reason else ''
    )
