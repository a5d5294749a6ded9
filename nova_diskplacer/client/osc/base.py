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

"""Arguments, exit status and profiles of the commands."""

import argparse
import typing

from cliff import columns
from osc_lib.command import command

from nova_diskplacer.client import views
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.host import streams
from nova_diskplacer.profiles import catalogue


class Command(command.Command):
    """A command of the plugin.

    ``status`` is its exit status, which ``take_action`` may change.
    """

    status = 0

    @property
    def connection(self) -> typing.Any:
        """The ``openstack.connection.Connection`` of openstackclient."""
        return self.app.client_manager.vdisk

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser with the command's arguments."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command and return its exit status.

        :raises OSError: the output cannot be written; cliff tells it, and
            knows the exit status of a pipe that nobody reads.
        """
        streams.replace_characters(self.app.stdout)
        try:
            status: int = super().run(parsed_args)
            self.app.stdout.flush()
        except OSError:
            # the interpreter tries to write the rest at its end
            streams.discard(self.app.stdout)
            raise
        return status or self.status


class Lister(Command, command.Lister):
    """A command that lists."""


class ShowOne(Command, command.ShowOne):
    """A command that shows one thing."""


class _Column(columns.FormattableColumn):
    """A cell that is text in a table and data in other formats."""

    def human_readable(self) -> str:
        return str(self._value)

    def machine_readable(self) -> typing.Any:
        return self._value.data


def column(cell: typing.Any) -> typing.Any:
    """Return a cell as cliff takes it."""
    return _Column(cell) if isinstance(cell, views.Cell) else cell


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add the option that selects a compute node."""
    parser.add_argument(
        '--host',
        metavar='HOST',
        help='only this compute node, with or without its domain',
    )


def add_profile_dirs(parser: argparse.ArgumentParser) -> None:
    """Add the option for directories with an operator's profiles."""
    parser.add_argument(
        '--profile-dir',
        dest='profile_dirs',
        action='append',
        metavar='DIRECTORY',
        help='directory with profiles besides the shipped ones, may be '
        'repeated (default: '
        + ', '.join(diskplacer.PROFILE_DIRS.default)
        + ')',
    )


def load_profiles(args: argparse.Namespace) -> catalogue.Catalogue:
    """Return the profiles.

    :raises ProfileError: one of them is invalid.
    """
    return catalogue.load(
        args.profile_dirs or list(diskplacer.PROFILE_DIRS.default)
    )
