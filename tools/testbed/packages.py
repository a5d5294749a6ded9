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

"""Python's packages as the image of a disk: made once, kept in the checkout.

A directory of the host that the guest reads by 9p costs a request to QEMU for
each look at a file, and importing Cinder's driver looks at thousands.
"""

import collections.abc
import contextlib
import hashlib
import os
import pathlib
import stat
import subprocess

from tools.testbed import image

PREFIX = 'packages-'
BLOCK = 4096
# Bytes of each file beside its blocks.
INODE = 256
# Bytes beside the files: groups of blocks, and what is rounded.
SPARE = 64 << 20
# Another process may replace a file while it is copied.
ATTEMPTS = 3

Files = collections.abc.Mapping[str, os.stat_result]


def build(directory: pathlib.Path) -> pathlib.Path:
    """Have the image of a directory as it is, and return its path.

    :raises ImageError: it cannot be made; says why.
    """
    files = dict(_files(directory))
    with image.locked():
        path = image.CACHE / f'{PREFIX}{_key(files)}.img'
        if not path.exists():
            for old in image.CACHE.glob(f'{PREFIX}*'):
                old.unlink()
            _make(directory, files, path)
    return path


def _files(
    directory: pathlib.Path,
) -> collections.abc.Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of all that is below a directory."""
    for parent, directories, names in os.walk(directory):
        for name in (*directories, *names):
            path = os.path.join(parent, name)
            # one that Python has just renamed
            with contextlib.suppress(FileNotFoundError):
                yield path, os.lstat(path)


def _key(files: Files) -> str:
    """Return what changes with a file, but for what Python has compiled."""
    digest = hashlib.sha256()
    for path, status in sorted(files.items()):
        if '/__pycache__' not in path and not stat.S_ISDIR(status.st_mode):
            known = f'{path}\0{status.st_size} {status.st_mtime_ns}\0'
            digest.update(os.fsencode(known))
    return digest.hexdigest()[:12]


def _make(directory: pathlib.Path, files: Files, path: pathlib.Path) -> None:
    blocks = sum(-(-one.st_size // BLOCK) for one in files.values())
    size = blocks * BLOCK + 2 * len(files) * INODE + SPARE
    made = path.with_suffix('.new')
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [
                'mke2fs', '-q', '-F', '-t', 'ext4', '-b', str(BLOCK),
                '-m', '0', '-N', str(2 * len(files)), '-I', str(INODE),
                '-O', '^has_journal,^metadata_csum,^64bit,^resize_inode',
                '-d', str(directory), str(made), str(size // BLOCK),
            ],
            env={'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8'},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )  # fmt: skip
        if not done.returncode:
            made.rename(path)
            return
        made.unlink(missing_ok=True)
    raise image.ImageError(
        f'an image of {directory} cannot be made: {done.stderr.strip()}'
    )
