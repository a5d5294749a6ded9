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
import sys

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import disk
from nova_diskplacer.cmd import guest_config
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.cmd import profile
from nova_diskplacer.cmd import top


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    parser = argparse.ArgumentParser(
        prog='diskplacer-manage',
        description='Prepares the local disks of a compute node, shows the '
        'disks of the vdisks of each server, and applies profiles of '
        'workloads to flavors.',
    )
    parser.add_argument(
        '--config-file',
        action='append',
        metavar='FILE',
        help='file to read, may be repeated (default: nova.conf)',
    )
    parser.set_defaults(configure=_configure)
    commands = parser.add_subparsers(dest='command', required=True)
    disk.register(commands)
    map_.register(commands)
    top.register(commands)
    profile.register(commands)
    guest_config.register(commands)
    return parser


def _configure(args: argparse.Namespace) -> None:
    common.configure(args.config_file, [])


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    args = make_parser().parse_args(argv)
    try:
        args.configure(args)
        status: int = args.handler(conf.CONF, args)
    except exception.DiskPlacerError as error:
        print(f'diskplacer-manage: {error}', file=sys.stderr)
        return 2
    return status
