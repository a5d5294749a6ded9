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

"""Generates cloud-init user data that makes a server use its vdisks.

One script does all the work in the guest. It consists of the modules
``script``, ``system`` and ``editing``, for the layout STRIPE also ``stripe``,
and a literal with the settings.
cloud-init runs it before services start, on every boot (``bootcmd``), and
again at the end of the first boot (``runcmd``), when the packages and users
of the user data exist.

The script is in Python, as cloud-init is: every guest that reads user data has
Python 3, at least 3.6, and its standard library, which edits XML safely.
"""

import collections.abc
import dataclasses
import importlib.resources
import os
import pprint
import re
import typing

import yaml

from nova_diskplacer import exception
from nova_diskplacer.disks import identity
from nova_diskplacer.guest import frameworks
from nova_diskplacer.profiles import definitions

GIB = 1 << 30

#: Length of the serial of a virtio-blk disk, the start of its volume's ID.
SERIAL_LENGTH = 20

#: A filesystem on each vdisk, or one on a stripe (RAID 0) over all of them.
SEPARATE, STRIPE = 'separate', 'stripe'
LAYOUTS = (SEPARATE, STRIPE)

FILESYSTEMS = ('ext4', 'xfs')
XFS = 'xfs'
MOUNT_ROOT = '/data'
PATH = '/usr/local/sbin/diskplacer-guest'

#: Bytes of user data that Nova accepts: 65535 in base64.
MAX_BYTES = 65535 // 4 * 3

# ``nofail`` lets the guest boot without a missing disk, ``noatime`` saves a
# write for each read.
_OPTIONS = ('noatime', 'nofail')

# the modules of a layout's script
_PARTS = {
    SEPARATE: ('script', 'system', 'editing'),
    STRIPE: ('script', 'system', 'editing', 'stripe'),
}

#: A shell command that runs the guest's Python 3 with the arguments. In some
#: guests the only python3 is the one that runs cloud-init.
LAUNCHER = (
    'exec $(command -v python3 || '
    'sed -n \'1s/^#! *//p\' "$(command -v cloud-init)") "$@"'
)

_NO_ADVICE = definitions.Guest()

_PATH = re.compile(r'(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)+')
_OWNER = re.compile(r'[A-Za-z_][A-Za-z0-9._-]*(:[A-Za-z_][A-Za-z0-9._-]*)?')
_OPTION = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.:=-]*')


def settings(
    framework: str,
    *,
    volumes: tuple[str, ...] | None = None,
    count: int = 0,
    gib: int = 0,
    advice: definitions.Guest = _NO_ADVICE,
    layout: str = SEPARATE,
    mount_root: str = MOUNT_ROOT,
    conf_dir: str | None = None,
    owner: str | None = None,
) -> dict[str, typing.Any]:
    """Return the settings of the script in the guest.

    :param framework: a key of ``frameworks.FRAMEWORKS``.
    :param volumes: the IDs of the volumes that are vdisks, None for all blank
        volumes of the size.
    :param count: minimum number of blank volumes.
    :param gib: size of each blank volume in GiB.
    :param advice: of the flavor's profile.
    :param layout: one of LAYOUTS.
    :param conf_dir: directory of the framework's files, None for the default.
    :param owner: ``user`` or ``user:group`` of the directories, None for the
        default.
    :raises DiskPlacerError: a value is not allowed.
    """
    disks = count if volumes is None else len(volumes)
    if layout == STRIPE and disks < 2:
        raise exception.DiskPlacerError(
            f'layout {layout} takes two vdisks or more, not {disks}'
        )
    _check_path('mount root', mount_root)
    return {
        'volumes': None if volumes is None else _serials(volumes),
        'count': count,
        'bytes': gib * GIB,
        'layout': layout,
        'filesystem': advice.filesystem or XFS,
        'options': _mount_options(advice.mount_options),
        'queue': _queue(advice),
        'root': mount_root,
        'directories': [
            _directory(entry, conf_dir, owner)
            for entry in frameworks.FRAMEWORKS[framework]
        ],
    }


def _serials(volumes: collections.abc.Iterable[str]) -> list[str]:
    """Return the serials of the disks of volumes."""
    volumes = list(volumes)
    for volume in volumes:
        if not identity.is_uuid(volume):
            raise exception.DiskPlacerError(f'volume {volume!r} is not a UUID')
    return sorted(volume[:SERIAL_LENGTH] for volume in volumes)


def _queue(advice: definitions.Guest) -> dict[str, str | int]:
    """Return the values of files in ``/sys/block/*/queue``."""
    files = {
        'scheduler': advice.scheduler,
        'read_ahead_kb': advice.read_ahead_kb,
    }
    return {name: value for name, value in files.items() if value is not None}


def _mount_options(further: tuple[str, ...]) -> str:
    for option in further:
        _check('mount option', option, _OPTION, 'letters, digits and _.:=-')
    return ','.join(dict.fromkeys(_OPTIONS + further))


def _directory(
    entry: frameworks.Directory, conf_dir: str | None, owner: str | None
) -> dict[str, typing.Any]:
    """Return the settings of one of a framework's files."""
    owner = owner or entry.owner
    directory, file = os.path.split(entry.file)
    directory = conf_dir or directory
    _check('owner', owner, _OWNER, 'USER or USER:GROUP')
    _check_path('configuration directory', directory)
    return {
        **dataclasses.asdict(entry),
        'owner': owner,
        'file': f'{directory}/{file}',
    }


def _check(
    what: str, value: str, pattern: re.Pattern[str], allowed: str
) -> None:
    if not pattern.fullmatch(value):
        raise exception.DiskPlacerError(f'{what} {value!r} is not {allowed}')


def _check_path(what: str, path: str) -> None:
    """Reject characters that need quoting in a list, fstab or a URI."""
    _check(
        what,
        path,
        _PATH,
        'an absolute path of letters, digits and ._+-, where no name begins '
        'with a dot or a dash',
    )


def script(values: collections.abc.Mapping[str, typing.Any]) -> str:
    """Return the script that applies the settings in the guest."""
    here = importlib.resources.files(__package__)
    text = '#!/usr/bin/python3\n'
    for name in _PARTS[values['layout']]:
        source = (here / f'{name}.py').read_text(encoding='ascii')
        # in the guest the parts are one module
        text += re.sub(
            r'^from nova_diskplacer\.guest import (\w+)$',
            r'\1 = sys.modules[__name__]',
            source[source.index('"""') :],
            flags=re.MULTILINE,
        )
    literal = pprint.pformat(dict(values), width=76, sort_dicts=False)
    return f'{text}\n\nsys.exit(main(\n{literal}\n))\n'


def user_data(values: collections.abc.Mapping[str, typing.Any]) -> str:
    """Return cloud-init user data that runs the script.

    cloud-init appends its lists to those of other parts of the user data.

    :raises DiskPlacerError: it is larger than Nova accepts.
    """
    text = _Text(script(values))
    launch = ['sh', '-c', LAUNCHER, 'sh']
    document = {
        'merge_how': 'dict(recurse_list)+list(append)',
        'write_files': [
            {'path': PATH, 'permissions': '0755', 'content': text}
        ],
        'bootcmd': [[*launch, '-c', text, 'early']],
        'runcmd': [[*launch, PATH]],
    }
    data = '#cloud-config\n' + yaml.dump(
        document, Dumper=_Dumper, sort_keys=False, width=10000
    )
    if len(data.encode()) > MAX_BYTES:
        raise exception.DiskPlacerError(
            f'{len(data)} bytes of user data; Nova accepts {MAX_BYTES} at most'
        )
    return data


class _Text(str):
    """A multi-line text, written once and referred to by a YAML alias."""


class _Dumper(yaml.SafeDumper):
    """Writes ``_Text`` unescaped, as a YAML block."""

    def ignore_aliases(self, data: typing.Any) -> bool:
        return not isinstance(data, _Text)

    def generate_anchor(self, node: yaml.Node) -> str:
        return 'script'


_Dumper.add_representer(
    _Text,
    lambda dumper, data: dumper.represent_scalar(
        'tag:yaml.org,2002:str', data, style='|'
    ),
)
