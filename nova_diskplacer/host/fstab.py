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

"""Adds and removes the entries of prepared devices in /etc/fstab."""

import collections.abc
import contextlib
import errno
import os
import re
import stat

from nova_diskplacer.host import files
from nova_diskplacer.host import mounts

PATH = '/etc/fstab'

# With nofail alone, as of earlier releases, services do not wait for a disk at
# a boot.
_EARLIER_OPTIONS = 'nofail,noatime'
_OPTIONS = f'{_EARLIER_OPTIONS},x-systemd.before=local-fs.target'

_LOCK = 'fstab'

# Links of udev to the devices with a tag.
_BY_TAG = '/dev/disk/by-{}'


def check(fstab: str) -> None:
    """Check that entries can be added.

    :raises OSError: the file cannot be read or written.
    """
    _read(fstab)
    if os.path.lexists(fstab):
        with files.opened(fstab, os.O_RDWR):
            return
    directory = os.path.dirname(fstab) or '.'
    os.stat(directory)
    if not os.access(directory, os.W_OK):
        raise PermissionError(errno.EACCES, 'it cannot be written', directory)


def has(fstab: str, path: str) -> bool:
    """Tell whether there is an entry of the mount point ``path``."""
    return any(_is_of(line, path) for line in _read(fstab))


def target_of(
    fstab: str,
    device: str,
    tags: collections.abc.Iterable[tuple[str, str]] = (),
) -> str | None:
    """Return where a device is mounted at every boot, None if nowhere.

    :param device: its path.
    :param tags: its filesystem's, such as ``('UUID', '1234-ABCD')``.
    """
    known = {(tag.upper(), value) for tag, value in tags if value}
    real = os.path.realpath(device)
    for line in _read(fstab):
        source, target = _fields(line)
        if not target or source.startswith('#'):
            continue
        tag, _, value = source.partition('=')
        value = value.strip('"')
        if (tag, value) in known:
            return target
        if value and not source.startswith('/'):
            source = os.path.join(_BY_TAG.format(tag.lower()), value)
        if os.path.realpath(source) == real:
            return target
    return None


def add(fstab: str, uuid: str, path: str, *, waits: bool = True) -> None:
    """Mount the filesystem ``uuid`` at ``path`` at every boot; repeatable.

    An entry that is there stays, unless an earlier release has made it.

    :param waits: have services wait for it. The network comes after them, so
        a device that takes it would never be mounted.
    """
    entry = _entry(uuid, path, _OPTIONS if waits else _EARLIER_OPTIONS)
    with files.lock(_LOCK, wait=True):
        lines = _read(fstab)
        earlier = _entry(uuid, path, _EARLIER_OPTIONS)
        if earlier in lines:
            _write(
                fstab, [entry if line == earlier else line for line in lines]
            )
        elif not any(_is_of(line, path) for line in lines):
            _write(fstab, [*lines, entry])


def remove(fstab: str, path: str) -> None:
    """Remove the entry of the mount point ``path``, if there is one."""
    with files.lock(_LOCK, wait=True):
        lines = _read(fstab)
        kept = [line for line in lines if not _is_of(line, path)]
        if kept != lines:
            _write(fstab, kept)


def _entry(uuid: str, path: str, options: str) -> str:
    return f'UUID={uuid} {_escaped(path)} xfs {options} 0 0'


def _is_of(line: str, path: str) -> bool:
    source, target = _fields(line)
    return not source.startswith('#') and target == path


def _fields(line: str) -> tuple[str, str]:
    """Return the source and the mount point of a line."""
    # as the C library splits lines, not at all white space of Unicode
    source, target = (*re.findall(r'[^ \t]+', line), '', '')[:2]
    return mounts.decoded(source), mounts.decoded(target)


def _escaped(path: str) -> str:
    return re.sub(r'[\s\\]', lambda match: f'\\{ord(match[0]):03o}', path)


def _read(fstab: str) -> list[str]:
    """Return the lines; bytes of other encodings are surrogates."""
    try:
        with open(
            fstab, encoding='utf-8', errors='surrogateescape', newline=''
        ) as stream:
            text = stream.read()
    except FileNotFoundError:
        return []
    return text.removesuffix('\n').split('\n') if text else []


def _write(fstab: str, lines: list[str]) -> None:
    # atomic: a machine with a partial fstab does not boot
    text = ''.join(f'{line}\n' for line in lines)
    path = os.path.realpath(fstab)
    mode = 0o644
    with contextlib.suppress(FileNotFoundError):
        mode = stat.S_IMODE(os.stat(path).st_mode)
    try:
        files.replace(path, text, durable=True, mode=mode)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # a container has the host's file as a mount point
        files.overwrite(path, text)
