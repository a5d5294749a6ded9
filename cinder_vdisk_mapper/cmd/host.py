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


"""diskplacer-manage host give-up: has servers of a lost host come back blank.

An entry point adds it to ``diskplacer-manage``.
"""

import argparse
from typing import Any

import prettytable
from oslo_config import cfg

from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import exit_status


def register(commands: Any) -> None:
    """Add ``host`` to the commands of ``diskplacer-manage``."""
    command = commands.add_parser(
        'host',
        help='give up the data of a host that is lost',
        description='Has servers of a host that is lost come back elsewhere.',
    )
    actions = command.add_subparsers(dest='action', required=True)
    action = actions.add_parser(
        'give-up',
        help='give up the vdisks of a host that is lost for good',
        description='Gives up the data of the servers of a host that is lost '
        'for good, if their flavors have diskplacer:on_host_loss=blank. Their '
        'volumes become blank volumes of this host, and follow the servers '
        'when "openstack vdisk host lost" evacuates them. Shows what it would '
        'do, unless --yes is given. The host must be fenced and forced down '
        'in Nova, and its cinder-volume be down. Run it on a live host with '
        'the same backends: volumes of others are not looked at. The exit '
        'status is 0 if no volume of these stays on the lost host, and else '
        '3.',
    )
    action.add_argument('host', metavar='HOST', help='that is lost')
    action.add_argument(
        '--yes',
        action='store_true',
        help='do it: the data of these volumes is lost for their servers',
    )
    cinder_conf.add_option(action)
    action.set_defaults(handler=_give_up, configure=cinder_conf.configure)


def _give_up(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    from cinder_vdisk_mapper.cinder_api import backend_sections
    from cinder_vdisk_mapper.server_moves import lost_host

    entries = []
    with cinder_conf.database_errors():
        backends = backend_sections.read(cfg.CONF)
        try:
            for entry in lost_host.give_up(backends, args.host, args.yes):
                entries.append(entry)
        except Exception:
            # what is done stays done
            if entries:
                print(_table(entries, args.yes))
            raise
    if not entries:
        sections = (here.partition('@')[2] for here in sorted(backends))
        there = ', '.join(f'{args.host}@{section}' for section in sections)
        print(f'No volume is on {there}.')
        return exit_status.OK
    print(_table(entries, args.yes))
    stays = [entry for entry in entries if entry.reason]
    if len(stays) < len(entries):
        print(
            f'Bring the servers back: openstack vdisk host lost {args.host} '
            '--yes'
            if args.yes
            else 'Nothing is changed. Repeat this with --yes.'
        )
    return exit_status.of(stays if args.yes else entries)


def _table(entries: list[Any], is_done: bool) -> prettytable.PrettyTable:
    """Return what becomes, or has become, of each volume."""
    done = 'given up' if is_done else 'to be given up'
    table = prettytable.PrettyTable(
        ['Volume', 'Server', 'Data', 'Stays because'], align='l'
    )
    table.max_width['Stays because'] = 60
    for entry in entries:
        table.add_row(
            [
                entry.volume,
                entry.server or '-',
                'stays' if entry.reason else done,
                entry.reason,
            ]
        )
    return table
