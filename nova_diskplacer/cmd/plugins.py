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

"""Adds the commands of diskplacer-manage, which entry points name.

Not every host has what every command imports.
"""

import argparse
import functools
import typing
from importlib import metadata

from nova_diskplacer import exception

# The extra and the Debian package with what a package needs.
_NEEDS = {
    'cinder_vdisk_mapper': ('driver', 'cinder-vdisk-mapper'),
    'diskplacer_measure': ('measure', 'nova-diskplacer-measure'),
    'nova_diskplacer': ('agent', 'nova-diskplacer-agent'),
}


def add(commands: typing.Any, entry_point: metadata.EntryPoint) -> None:
    """Add the command of an entry point to an argparse parser's subparsers.

    Where a package that it imports is missing, the command says what to
    install, and the others work.

    :raises ImportError: the command is not one of this project.
    """
    try:
        register = entry_point.load()
    except ImportError as error:
        package = entry_point.module.partition('.')[0]
        if package not in _NEEDS:
            raise
        extra, debian = _NEEDS[package]
        _add_missing(
            commands,
            entry_point.name,
            f'{error}: {entry_point.name} needs nova-diskplacer[{extra}], or '
            f'the Debian package {debian}',
        )
    else:
        register(commands)


def _add_missing(commands: typing.Any, name: str, message: str) -> None:
    """Add a command that only says why it is missing."""
    command = commands.add_parser(
        name, help='not installed', description=message
    )
    command.add_argument(
        'arguments', nargs=argparse.REMAINDER, help=argparse.SUPPRESS
    )
    command.set_defaults(configure=functools.partial(_refuse, message))


def _refuse(message: str, args: argparse.Namespace) -> typing.NoReturn:
    raise exception.DiskPlacerError(message)
