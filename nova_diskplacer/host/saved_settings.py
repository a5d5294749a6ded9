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

"""What the kernel had set for disks before it was changed, for this boot.

A file is there before the first change and goes after the last value is back,
so that whoever is killed in between leaves what restoring takes. The kernel
forgets changes at a boot, and then the files mean nothing.
"""

import collections.abc
import contextlib
import dataclasses
import json
import os
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import files

_VERSION = 1
_SUFFIX = '.json'


@dataclasses.dataclass(frozen=True)
class Original:
    """What was set for a disk, by the names of settings.

    ``device`` and ``sequence``, which tells it from others that had its name,
    say which block device that was.
    """

    device: str
    sequence: str
    values: collections.abc.Mapping[str, str]


class Originals:
    """The saved values of disks, one file for each, by the disks' UUIDs.

    :param directory: made when it is needed.
    :param boot_id: that of the running kernel.
    """

    def __init__(self, directory: str, boot_id: str) -> None:
        self._directory = directory
        self._boot_id = boot_id

    def uuids(self) -> list[str]:
        """Return the disks of which something is saved, sorted.

        :raises DiskError: the directory cannot be read.
        """
        with _explained(self._directory):
            try:
                names = os.listdir(self._directory)
            except FileNotFoundError:
                return []
        return sorted(
            name.removesuffix(_SUFFIX)
            for name in names
            if name.endswith(_SUFFIX)
        )

    def load(self, uuid: str) -> Original | None:
        """Return what was saved of a disk since the machine was booted.

        :raises DiskError: it cannot be read or is malformed; the disk must
            be left alone then.
        """
        path = self._path(uuid)
        with _explained(path):
            try:
                with open(path, encoding='utf-8') as stream:
                    fields = json.load(stream)
            except FileNotFoundError:
                return None
            return self._parse(fields)

    def save(self, uuid: str, original: Original) -> None:
        """Save what was set for a disk, whole or not at all.

        :raises DiskError: they cannot be saved.
        """
        path = self._path(uuid)
        fields = {
            'version': _VERSION,
            'boot_id': self._boot_id,
            **dataclasses.asdict(original),
        }
        with _explained(path):
            os.makedirs(self._directory, mode=0o755, exist_ok=True)
            files.replace(path, json.dumps(fields), durable=True)

    def forget(self, uuid: str) -> None:
        """Forget a disk's values; nothing is done if there are none.

        :raises DiskError: the file cannot be removed.
        """
        path = self._path(uuid)
        with _explained(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def _path(self, uuid: str) -> str:
        return os.path.join(self._directory, uuid + _SUFFIX)

    def _parse(self, fields: Any) -> Original | None:
        if fields['version'] != _VERSION:
            raise ValueError(f'its version is not {_VERSION}')
        if fields['boot_id'] != self._boot_id:
            return None
        values = fields['values']
        texts = (fields['device'], fields['sequence'], *values.values())
        if not all(isinstance(text, str) for text in texts):
            raise ValueError('a value is not a string')
        return Original(fields['device'], fields['sequence'], values)


def boot_id() -> str:
    """Return what tells this boot of the machine from all others.

    :raises DiskError: the kernel does not say.
    """
    path = '/proc/sys/kernel/random/boot_id'
    with _explained(path), open(path, encoding='ascii') as stream:
        return stream.read().strip()


@contextlib.contextmanager
def _explained(path: str) -> collections.abc.Iterator[None]:
    try:
        yield
    except OSError as error:
        raise exception.DiskError(f'{path}: {error.strerror}') from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise exception.DiskError(
            f'{path} does not hold the original settings of a disk '
            f'({error!r}): see how they are now and remove it'
        ) from error
