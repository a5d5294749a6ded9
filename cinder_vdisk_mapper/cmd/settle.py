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

"""diskplacer-manage settle: has the data of servers follow them to this host.

An entry point adds it to ``diskplacer-manage``.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.disks import settling


def register(commands: Any) -> None:
    """Add ``settle`` to the commands of ``diskplacer-manage``."""
    command = commands.add_parser(
        'settle',
        help='copy the data of servers that have moved to this host',
        description='Copies the data of servers that have moved to this host '
        'to the disks that they claim, while they run or not, until it is '
        'stopped. Copies of running servers go on meanwhile. Runs beside '
        'cinder-volume, as a service.',
    )
    command.add_argument(
        '--rate',
        type=arguments.number(int, 1),
        default=0,
        metavar='MIB',
        help='MiB per second at most for the copy of a vdisk (default: no '
        'limit)',
    )
    command.add_argument(
        '--share',
        type=arguments.number(int, 1, 100),
        default=50,
        metavar='PERCENT',
        help='percent of the throughput of the disk that a copy goes to, if '
        'that is known (default: %(default)s)',
    )
    command.add_argument(
        '--parallel',
        type=arguments.number(int, 1),
        default=4,
        metavar='N',
        help='number of copies at a time, to one disk each (default: '
        '%(default)s)',
    )
    command.add_argument(
        '--libvirt-uri',
        default='qemu:///system',
        metavar='URI',
        help='URI of libvirt (default: %(default)s)',
    )
    command.add_argument(
        '--status',
        action='store_true',
        help='show what is to be copied, and how far that is, and end',
    )
    command.add_argument(
        '--discard',
        metavar='VOLUME',
        help='remove what is here of a volume, by its ID, whose data is lost '
        'with the host that its server has left, and end; the cinder-volume '
        'service of that host must be removed first',
    )
    cinder_conf.add_option(command)
    command.set_defaults(handler=_settle, configure=cinder_conf.configure)


def _report(disk_roots: Iterable[str]) -> str:
    """Return what is to be copied to the disks below some roots, in words."""
    now = time.time()
    return (
        '\n'.join(
            f'{vdisk.name}: {settling.describe(vdisk, now)}'
            for root in sorted(disk_roots)
            for vdisk in settling.of_host(root, now)
        )
        or 'All data of the servers is on this host.'
    )


def _settle(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    from cinder_vdisk_mapper.cinder_api import backend_sections
    from cinder_vdisk_mapper.server_moves import lost_source
    from cinder_vdisk_mapper.server_moves import settler
    from cinder_vdisk_mapper.server_moves import settler_setup

    if os.geteuid() != 0:
        raise exception.DiskPlacerError('settling moves of servers needs root')
    if args.status:
        sections = backend_sections.read(cfg.CONF).values()
        print(_report({options.vdisk_disk_root for options in sections}))
        return exit_status.OK
    settler_setup.prepare(cfg.CONF)
    destinations = settler_setup.destinations(cfg.CONF)
    if args.discard:
        lost_source.discard(destinations, args.discard)
        print(
            f'Nothing of volume {args.discard} is left on this host, and it '
            'can be deleted.'
        )
        return exit_status.OK
    stopped = threading.Event()
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: stopped.set())
    settler.Settler(
        destinations,
        args.libvirt_uri,
        settler.Limits(args.rate, args.share, args.parallel),
        stopped,
    ).run()
    return exit_status.OK
