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

"""Runs commands and reads files and disks in the guest.

Runs in the guest as a part of ``script``.
"""

import glob
import os
import re
import subprocess
import tempfile
import typing
import uuid

# virtio-blk shows the first 20 characters of a volume's ID.
SERIAL = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){2}-[0-9a-f]$')
NAMESPACE = uuid.UUID('0b1f7c64-5a0e-4f0c-8e0d-9b7f6a3d2c51')

# Labels of an incomplete and of a complete filesystem.
UNFINISHED, FINISHED = 'vdisk-new', 'vdisk'


class Problem(Exception):
    """A step has failed."""


def run(*command: str, allowed: typing.Sequence[int] = (0,)) -> str:
    """Return the output of a command.

    :param allowed: exit statuses that are no error.
    :raises Problem: the command fails.
    """
    try:
        done = subprocess.run(  # noqa: S603 no shell is involved
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
        )
    except OSError as error:
        raise Problem('%s: %s' % (command[0], error.strerror)) from None
    if done.returncode not in allowed:
        message = (done.stderr or done.stdout).strip()
        raise Problem('%s: %s' % (' '.join(command), message))
    return done.stdout


def read(path: str) -> str:
    with open(path, encoding='latin-1', newline='') as stream:
        return stream.read()


def replace(path: str, text: str) -> None:
    """Replace the content of a file atomically and durably."""
    path = os.path.realpath(path)
    directory = os.path.dirname(path)
    descriptor, temporary = tempfile.mkstemp(dir=directory, prefix='.vdisk-')
    try:
        with open(descriptor, 'w', encoding='latin-1', newline='') as stream:
            stream.write(text)
            try:
                old = os.stat(path)
                os.fchown(descriptor, old.st_uid, old.st_gid)
                os.fchmod(descriptor, old.st_mode & 0o7777)
            except FileNotFoundError:
                os.fchmod(descriptor, 0o644)
            stream.flush()
            os.fsync(descriptor)
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    parent = os.open(directory, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def vdisks() -> typing.Dict[str, str]:
    """Return the device names of the disks that are volumes, by serial."""
    paths = {}
    for path in glob.glob('/sys/block/vd*/serial'):
        serial = read(path).strip('\0\n ')
        if SERIAL.match(serial):
            paths[serial] = path.split('/')[3]
    return paths


def filesystem_uuid(serial: str) -> str:
    """Return the UUID of the filesystem that the script makes on a disk.

    :param serial: of the disk, or the UUID of the stripe.
    """
    return str(uuid.uuid5(NAMESPACE, serial))


def holders(name: str) -> typing.List[str]:
    """Return the names of the devices that are made of a device."""
    return os.listdir('/sys/block/%s/holders' % name)


def in_use(device: str) -> bool:
    """Return whether a device or a partition of it is mounted or claimed."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError:
        return True
    return False


def read_signature(device: str) -> typing.Dict[str, str]:
    """Return what blkid reports of a device; empty if it is blank.

    :raises OSError: the device cannot be read.
    """
    with open(device, 'rb', buffering=0) as stream:
        stream.read(4096)
    report = run('blkid', '-p', '-o', 'export', device, allowed=(0, 2, 8))
    signatures = run('wipefs', '--parsable', device)
    signature = dict(
        line.split('=', 1) for line in report.splitlines() if '=' in line
    )
    if not signature and any(
        not line.startswith('#') for line in signatures.splitlines()
    ):
        return {'TYPE': 'unknown'}
    signature.pop('DEVNAME', None)
    return signature


def make_filesystem(device: str, own: str, kind: str, overwrite: bool) -> None:
    """Make a filesystem; the last step sets its label to FINISHED.

    :param own: its UUID.
    :param overwrite: replace an incomplete filesystem.
    """
    if kind == 'xfs':
        options = ['-q', '-L', UNFINISHED, '-m', 'uuid=' + own]
        options += ['-f'] if overwrite else []
        rename = ['xfs_admin', '-L', FINISHED, device]
    else:
        # without -F mke2fs may ask for confirmation
        options = ['-q', '-F', '-L', UNFINISHED, '-U', own]
        rename = ['e2label', device, FINISHED]
    run('mkfs.' + kind, *(options + [device]))
    descriptor = os.open(device, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    run(*rename)
