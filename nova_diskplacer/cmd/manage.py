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

"""diskplacer-manage: disks of this host, the map of vdisks, profiles."""

import argparse
import collections.abc
import sys
from importlib import metadata

from nova_diskplacer import conf
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import outcome
from nova_diskplacer.cmd import plugins

#: Entry points that add commands, given argparse's subparsers.
COMMANDS = 'nova_diskplacer.cmd.manage'

# Each is a module, and most take long to import what others do not need.
_OWN = tuple(
    metadata.EntryPoint(
        name,
        f'nova_diskplacer.cmd.{name.replace("-", "_")}:register',
        COMMANDS,
    )
    for name in (
        'disk',
        'map',
        'top',
        'weights',
        'elastic',
        'profile',
        'guest-config',
        'install-units',
    )
)


def make_parser(
    argv: collections.abc.Collection[str] = (),
) -> argparse.ArgumentParser:
    """Return the parser of the whole command.

    :param argv: the arguments; it may know only the commands that are among
        them, unless there is none.
    """
    parser = argparse.ArgumentParser(
        prog='diskplacer-manage',
        description='Prepares the local disks of a compute node, shows the '
        'disks of the vdisks of each server, applies profiles of '
        'workloads to flavors, and measures servers.',
    )
    common.add_config_file(parser)
    parser.set_defaults(
        configure=lambda args: common.configure(args.config_file, [])
    )
    commands = parser.add_subparsers(dest='command', required=True)
    registered = [*_OWN, *metadata.entry_points(group=COMMANDS)]
    named = [command for command in registered if command.name in argv]
    for command in named or registered:
        plugins.add(commands, command)
    return parser


@outcome.command('diskplacer-manage')
def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    args = make_parser(words).parse_args(words)
    args.configure(args)
    status: int = args.handler(conf.CONF, args)
    return status
