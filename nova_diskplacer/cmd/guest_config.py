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

"""diskplacer-manage guest-config: user data for a server with vdisks."""

import argparse
import typing

from oslo_config import cfg

from nova_diskplacer import arguments
from nova_diskplacer.client import guest
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.profiles import catalogue


def register(subparsers: typing.Any) -> None:
    """Add the ``guest-config`` command to an argparse parser's subparsers."""
    parser = shell.add_command(
        subparsers,
        'guest-config',
        _guest_config,
        'generate user data that makes a server use its vdisks',
        'Prints cloud-init user data that formats and mounts the '
        'vdisks of a server and configures a framework to spread its data '
        'over them. It does not touch a disk with any other signature.',
    )
    guest.add_options(parser, '--format')
    # deprecated: no agent is asked any more
    parser.add_argument(
        '--timeout',
        type=arguments.number(float, 0.1, 3600),
        metavar='SECONDS',
        help=argparse.SUPPRESS,
    )
    cloud.add_arguments(parser)


def _guest_config(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = catalogue.load(conf.diskplacer.profile_dirs)
    print(guest.generate(args, cloud.connection(args), profiles), end='')
    return 0
