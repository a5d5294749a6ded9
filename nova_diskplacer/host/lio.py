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

"""Looks at iSCSI targets of the kernel (LIO), and admits one initiator.

Cinder's own tool takes the secret as an argument, which any user of the host
can read in the list of processes, and which sudo logs.
"""

import contextlib
import os
import re

from nova_diskplacer import exception
from nova_diskplacer.host import files

#: where the kernel has its iSCSI targets
TARGETS = '/sys/kernel/config/target/iscsi'

# The names that rtslib accepts. It cannot remove a target whose initiator has
# another name, such as iqn.2016-04.example or one with a capital letter.
_NAME = re.compile(
    r'(?=.{1,223}$)iqn\.[0-9]{4}-[01][0-9]\.[0-9a-z:-]*\.[0-9a-z.:-]*'
    r'|naa\.[125c-f][0-9a-f]{15}'
    r'|eui\.[0-9a-f]{16}'
)
_LUN = 'lun_0'


def admit(iqn: str, initiator: str, user: str, secret: str) -> None:
    """Let an initiator log in to a target by CHAP, and no other one.

    :raises DiskError: there is no such target, a name is invalid, or the
        kernel refuses it. No error has the secret in it.
    """
    for name in (iqn, initiator):
        if not _NAME.fullmatch(name):
            raise exception.DiskError(
                f'{name!r} is no iSCSI name that rtslib takes: '
                'iqn.YEAR-MONTH.DOMAIN with a dot in the domain, naa. or '
                'eui., in lower case and without _'
            )
    group = os.path.join(TARGETS, iqn, 'tpgt_1')
    acls = os.path.join(group, 'acls')
    acl = os.path.join(acls, initiator)
    with files.disk_errors(group):
        for other in os.listdir(acls):
            if other != initiator:
                _remove(os.path.join(acls, other))
        with contextlib.suppress(FileExistsError):
            os.mkdir(acl)
        _write(os.path.join(acl, 'auth', 'userid'), user)
        _write(os.path.join(acl, 'auth', 'password'), secret)
        mapped = os.path.join(acl, _LUN)
        with contextlib.suppress(FileExistsError):
            os.mkdir(mapped)
        if not _links(mapped):
            os.symlink(
                os.path.join(group, 'lun', _LUN), os.path.join(mapped, 'vdisk')
            )


def is_whole(iqn: str) -> bool:
    """Return whether a target exports a device.

    A tool that is killed while it makes one, or a boot without the device,
    leaves some of it. Its address comes last.

    :raises DiskError: it cannot be read.
    """
    group = os.path.join(TARGETS, iqn, 'tpgt_1')
    with files.disk_errors(group), contextlib.suppress(FileNotFoundError):
        with open(os.path.join(group, 'enable')) as stream:
            is_enabled = stream.read().strip() == '1'
        return (
            is_enabled
            and bool(_links(os.path.join(group, 'lun', _LUN)))
            and bool(os.listdir(os.path.join(group, 'np')))
        )
    return False


def _remove(acl: str) -> None:
    for lun in os.listdir(acl):
        mapped = os.path.join(acl, lun)
        if lun.startswith('lun_'):
            for link in _links(mapped):
                os.unlink(link)
            os.rmdir(mapped)
    os.rmdir(acl)


def _links(directory: str) -> list[str]:
    return [
        entry.path for entry in os.scandir(directory) if entry.is_symlink()
    ]


def _write(path: str, value: str) -> None:
    # the kernel takes a value by one write
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
