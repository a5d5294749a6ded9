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
``editing``, ``system`` and ``script``, and of the settings as a literal.
cloud-init runs it before services start, on every boot (``bootcmd``), and
again at the end of the first boot (``runcmd``), when the packages and users
of the user data exist.

The script is Python because cloud-init is: every guest that reads user data
has Python 3 and its standard library, which edit XML and YAML safely. The
guests' Python may be as old as 3.6.
"""

import collections.abc
import dataclasses
import importlib.resources
import pprint
import re
import typing

import yaml

from nova_diskplacer import exception
from nova_diskplacer.guest import frameworks

GIB = 1 << 30

#: Length of a virtio-blk disk's serial: the start of its volume's ID.
SERIAL_LENGTH = 20

FILESYSTEMS = ('ext4', 'xfs')
XFS = 'xfs'
MOUNT_ROOT = '/data'
PATH = '/usr/local/sbin/diskplacer-guest'

#: Nova takes as many bytes of user data: 65535 in base64.
LARGEST = 65535 // 4 * 3

# Without these a disk that is away would keep the guest from booting, and
# every read would write.
_OPTIONS = ('noatime', 'nofail')

_PARTS = ('script', 'system', 'editing')

# Some guests have no python3 but the one that runs cloud-init.
_LAUNCHER = (
    'exec $(command -v python3 || '
    'sed -n \'1s/^#! *//p\' "$(command -v cloud-init)") "$@"'
)

_PATH = re.compile(r'(/[A-Za-z0-9_+][A-Za-z0-9._+-]*)+')
_OWNER = re.compile(r'[A-Za-z_][A-Za-z0-9._-]*(:[A-Za-z_][A-Za-z0-9._-]*)?')
_OPTION = re.compile(r'[A-Za-z0-9_][A-Za-z0-9_.:=-]*')
_VOLUME = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')


@dataclasses.dataclass(frozen=True)
class VDisks:
    """The vdisks among the guest's disks.

    :param volumes: the IDs of the volumes; None: all blank volumes of the
        size, and ``count`` of them at least.
    :param gib: the size of each in GiB; matters without ``volumes``.
    """

    volumes: tuple[str, ...] | None = None
    count: int = 0
    gib: int = 0


@dataclasses.dataclass(frozen=True)
class Request:
    """The use that the guest makes of its vdisks.

    :param framework: a key of ``frameworks.FRAMEWORKS``.
    :param mount_options: beside those that are always there.
    :param queue: what to write to files in ``/sys/block/*/queue``.
    :param conf_dir: where the framework's files are, not the default.
    :param owner: ``user`` or ``user:group`` of the directories, not the
        default.
    """

    framework: str
    filesystem: str = XFS
    mount_options: tuple[str, ...] = ()
    queue: collections.abc.Mapping[str, str | int] = dataclasses.field(
        default_factory=dict
    )
    mount_root: str = MOUNT_ROOT
    conf_dir: str | None = None
    owner: str | None = None


def settings(vdisks: VDisks, request: Request) -> dict[str, typing.Any]:
    """Return the settings of the script in the guest.

    :raises DiskPlacerError: a value is not allowed.
    """
    for volume in vdisks.volumes or ():
        _check('volume', volume, _VOLUME, 'a UUID')
    _check_path('mount root', request.mount_root)
    for option in request.mount_options:
        _check('mount option', option, _OPTION, 'letters, digits and _.:=-')
    framework = frameworks.FRAMEWORKS[request.framework]
    conf_dir = request.conf_dir or framework.conf_dir
    directories = []
    for one in framework.directories:
        owner = request.owner or one.owner
        _check('owner', owner, _OWNER, 'USER or USER:GROUP')
        _check_path('configuration directory', conf_dir)
        directories.append(
            {
                **dataclasses.asdict(one),
                'owner': owner,
                'file': f'{conf_dir}/{one.file}',
            }
        )
    return {
        'volumes': None
        if vdisks.volumes is None
        else sorted(volume[:SERIAL_LENGTH] for volume in vdisks.volumes),
        'count': vdisks.count,
        'bytes': vdisks.gib * GIB,
        'filesystem': request.filesystem,
        'options': ','.join(dict.fromkeys(_OPTIONS + request.mount_options)),
        'queue': dict(request.queue),
        'root': request.mount_root,
        'directories': directories,
    }


def _check(
    what: str, value: str, pattern: re.Pattern[str], allowed: str
) -> None:
    if not pattern.fullmatch(value):
        raise exception.DiskPlacerError(f'{what} {value!r} is not {allowed}')


def _check_path(what: str, path: str) -> None:
    """Reject characters that a list, an fstab or a URI would quote."""
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
    for name in _PARTS:
        source = (here / f'{name}.py').read_text(encoding='ascii')
        # the parts are one module there
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

    Lists in it are appended to those of other parts of the user data.

    :raises DiskPlacerError: Nova would not take as much.
    """
    text = _Text(script(values))
    launch = ['sh', '-c', _LAUNCHER, 'sh']
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
    if len(data.encode()) > LARGEST:
        raise exception.DiskPlacerError(
            f'{len(data)} bytes of user data; Nova takes {LARGEST} at most'
        )
    return data


class _Text(str):
    """A text of many lines that is written once, however often it is used."""


class _Dumper(yaml.SafeDumper):
    """Writes texts as they are."""

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
