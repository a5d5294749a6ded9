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

"""diskplacer-manage install-units: systemd units of a virtual environment.

The units of the package name their commands without a directory, which suits a
distribution's package. systemd searches neither the commands nor the units of
a virtual environment.
"""

import argparse
import os
import re
import sys
from importlib import metadata
from typing import Any

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.cmd import shell
from nova_diskplacer.host import files

DIRECTORY = '/etc/systemd/system'
NAMES = (
    'diskplacer-agent',
    'diskplacer-elastic',
    'diskplacer-settle',
    'diskplacer-vendordata',
)

# ExecStart= and the like, up to the name of the command.
_COMMAND = re.compile(r'^(Exec\w+=)(?=diskplacer-)', re.MULTILINE)

# systemd would expand or split other paths.
_PLAIN = re.compile(r'[\w/.+-]+', re.ASCII)


def register(commands: Any) -> None:
    """Add the command to those of ``diskplacer-manage``."""
    command = shell.add_command(
        commands,
        'install-units',
        _install,
        'install the systemd units of a virtual environment',
        'Copies systemd units of this installation to a directory that '
        'systemd reads, with the absolute paths of their commands. Existing '
        'units of these names are replaced.',
    )
    command.add_argument(
        'names',
        nargs='+',
        choices=NAMES,
        metavar='UNIT',
        help=' or '.join(NAMES),
    )
    command.add_argument(
        '--directory',
        default=DIRECTORY,
        help='directory of the units (default: %(default)s)',
    )
    # the host may not be configured yet
    command.set_defaults(configure=lambda args: None)


def _install(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    programs = os.path.dirname(sys.executable)
    for name in args.names:
        unit = f'{name}.service'
        text = with_paths(read_shipped(unit), programs)
        path = os.path.join(args.directory, unit)
        try:
            files.replace(path, text, durable=True, mode=0o644)
        except OSError as error:
            raise exception.DiskPlacerError(
                f'--directory {args.directory}: {error.strerror}'
            ) from error
        print(f'{path} is installed.')
    names = ' '.join(args.names)
    print(f'Next: systemctl daemon-reload; systemctl enable --now {names}')
    return exit_status.OK


def read_shipped(unit: str) -> str:
    """Return the text of a unit that was installed with the package.

    :raises DiskPlacerError: the installation does not have it.
    """
    for file in metadata.files('nova-diskplacer') or ():
        if file.name == unit:
            return file.read_text()
    raise exception.DiskPlacerError(
        f'{sys.prefix} does not have {unit}: install nova-diskplacer there '
        'with pip, not as an editable installation'
    )


def with_paths(unit: str, programs: str) -> str:
    """Return a unit whose commands are in the directory ``programs``.

    :raises DiskPlacerError: systemd would read the path as something else.
    """
    if not _PLAIN.fullmatch(programs):
        raise exception.DiskPlacerError(
            f'the path {programs!r} may only contain letters and digits of '
            'ASCII and / . _ + -'
        )
    return _COMMAND.sub(rf'\g<1>{programs}/', unit)
