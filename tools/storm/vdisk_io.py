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


"""Bytes of vdisks, as their users write and as anybody may read them.

What a guest of libvirt has open is written by its QEMU, so that copies that
QEMU makes see it. The guests of the fake driver have nothing open: they are
written by the path that Nova has stored.
"""

import contextlib
import os
import pathlib
import xml.etree.ElementTree

from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud.state import State
from tools.storm import content

_ATTEMPTS = 5


class Unwritten(Exception):
    """A write has failed; ``begun`` if bytes may have been written."""

    def __init__(self, why: object, begun: bool) -> None:
        super().__init__(str(why))
        self.begun = begun


def link(state: State, host: str, volume: str) -> pathlib.Path:
    """Return the path that Nova has stored of a volume."""
    return state.disk_root(host) / 'by-volume' / f'volume-{volume}'


def write(
    state: State, host: str, volume: str, block: int, digest: bytes
) -> None:
    """Write a block, durably, as a guest of the fake driver would.

    :raises Unwritten: it could not be written.
    """
    place = link(state, host, volume)
    begun = False
    try:
        for _ in range(_ATTEMPTS):
            descriptor = os.open(place, os.O_RDWR)
            try:
                # a drain may have replaced the link just before that
                if not os.path.samestat(os.fstat(descriptor), os.stat(place)):
                    continue
                begun = True
                os.pwrite(
                    descriptor,
                    content.block_bytes(digest),
                    block * content.BLOCK,
                )
                os.fsync(descriptor)
                return
            finally:
                os.close(descriptor)
    except OSError as error:
        raise Unwritten(error, begun) from error
    raise Unwritten('the link changes all the time', False)


def write_by_guest(
    state: State, server: str, volume: str, block: int, digest: bytes
) -> None:
    """Write a block by the QEMU of a guest, durably.

    :raises Unwritten: it could not be written.
    """
    try:
        device = _device(state, server, volume)
    except (process.ProcessError, LookupError) as error:
        raise Unwritten(error, False) from error
    pattern = state.run / f'pattern-{volume}'
    pattern.write_bytes(digest)
    command = (
        f'qemu-io -d {device} "write -f -s {pattern} '
        f'{block * content.BLOCK} {content.BLOCK}"'
    )
    try:
        _virsh(state, 'qemu-monitor-command', server, '--hmp', command)
        # what the command prints goes to the log of the guest
        wanted = content.block_bytes(digest)
        found = path(state, f'volume-{volume}')
        if found is None or _block(found, block) != wanted:
            raise Unwritten('QEMU has not written it', True)
    except (process.ProcessError, OSError) as error:
        raise Unwritten(error, True) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            pattern.unlink()


def _virsh(state: State, *args: str) -> str:
    """Run virsh on the only host with real guests."""
    return hypervisor.virsh(state, hypervisor.hosts(state)[0], *args)


def _device(state: State, server: str, volume: str) -> str:
    """Return QEMU's name of the device of a volume."""
    text = _virsh(state, 'dumpxml', server)
    for disk in xml.etree.ElementTree.fromstring(text).iter('disk'):
        serial, alias = disk.find('serial'), disk.find('alias')
        if serial is not None and serial.text == volume and alias is not None:
            name = alias.attrib['name']
            return f'/machine/peripheral/{name}/virtio-backend'
    raise LookupError(f'{server} has no disk of volume {volume}')


def path(state: State, name: str) -> pathlib.Path | None:
    """Return the path of a vdisk, None if there is none, or no one.

    Where there are several, the link tells which it is.
    """
    roots = [state.disk_root(host.name) for host in state.hosts]
    links = [root / 'by-volume' / name for root in roots]
    found = [link for link in links if link.is_symlink()]
    if not found:
        found = [
            file for root in roots for file in root.glob(f'*/vdisks/{name}')
        ]
    return found[0] if len(found) == 1 else None


def wrong_blocks(
    path: pathlib.Path, wanted: content.Content
) -> list[content.Wrong]:
    """Compare a vdisk with what was written, as it is on its disk.

    :raises OSError: it cannot be read.
    """
    return wanted.wrong(lambda block: _block(path, block))


def _block(path: pathlib.Path, block: int) -> bytes:
    """Return the bytes of a block, as they are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # QEMU writes past the page cache
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return os.pread(descriptor, content.BLOCK, block * content.BLOCK)
    finally:
        os.close(descriptor)
