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

import errno
import re

from nova_diskplacer.host import files

PATH = '/etc/fstab'

_OPTIONS = 'nofail,noatime'


def add(fstab: str, uuid: str, path: str) -> None:
    """Mount the filesystem ``uuid`` at ``path`` at every boot; repeatable."""
    lines = _read(fstab)
    if not any(_is_of(line, path) for line in lines):
        lines.append(f'UUID={uuid} {_escaped(path)} xfs {_OPTIONS} 0 0')
        _write(fstab, lines)


def remove(fstab: str, path: str) -> None:
    """Remove the entry of the mount point ``path``, if there is one."""
    lines = _read(fstab)
    kept = [line for line in lines if not _is_of(line, path)]
    if kept != lines:
        _write(fstab, kept)


def _is_of(line: str, path: str) -> bool:
    source, target = (*line.split(), '', '')[:2]
    return not source.startswith('#') and target == _escaped(path)


def _escaped(path: str) -> str:
    return re.sub(r'[\s\\]', lambda found: f'\\{ord(found[0]):03o}', path)


def _read(fstab: str) -> list[str]:
    try:
        with open(fstab, encoding='utf-8') as stream:
            return [line.rstrip('\n') for line in stream]
    except FileNotFoundError:
        return []


def _write(fstab: str, lines: list[str]) -> None:
    # atomic: a machine with a partial fstab does not boot
    text = ''.join(f'{line}\n' for line in lines)
    try:
        files.replace(fstab, text, durable=True, mode=0o644)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        # a container has the host's file as a mount point
        files.overwrite(fstab, text)
