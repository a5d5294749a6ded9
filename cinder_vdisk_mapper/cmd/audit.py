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

"""diskplacer-manage disk audit: compares Cinder, the disks and Placement.

An entry point adds it to ``diskplacer-manage``. Cinder is imported only when
the command runs: that takes seconds, and not every host has it.
"""

import argparse
import dataclasses
import json
import os
from typing import Any

import prettytable
from oslo_config import cfg

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import exit_status

# Seconds that Cinder may work on a volume before that is a finding.
_STUCK_AFTER = 24 * 3600

_COLUMNS = ['Finding', 'Disk', 'VDisk', 'What', 'Repair', 'Otherwise']


def register(commands: Any) -> None:
    """Add the ``audit`` command to those of ``diskplacer-manage disk``."""
    command = commands.add_parser(
        'audit',
        help="compare Cinder's database, the disks and Placement",
        description="Compares Cinder's database, the disks of this host and "
        'Placement, and lists the differences. The exit status is 0 '
        'if all agrees or was repaired, 3 if findings remain, 1 on errors.',
    )
    command.add_argument(
        '--repair',
        action='store_true',
        help='repair the differences that can be repaired without losing data '
        'of a volume or snapshot',
    )
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )
    cinder_conf.add_option(command)
    command.add_argument(
        '--stuck-after',
        type=arguments.number(int, 1),
        default=_STUCK_AFTER,
        metavar='SECONDS',
        help='list volumes that Cinder works on for longer (default: '
        '%(default)s)',
    )
    command.set_defaults(handler=_audit, configure=cinder_conf.configure)


def _audit(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    from cinder_vdisk_mapper.audit import auditor

    if os.geteuid() != 0:
        raise exception.DiskPlacerError('an audit needs root')
    host = auditor.from_conf(cfg.CONF, args.stuck_after)
    with cinder_conf.database_errors():
        findings_, repaired = _run(host, args.repair)
    show = _json if args.format == 'json' else _table
    print(show(findings_, repaired))
    return exit_status.of(findings_)


def _run(
    host: Any, repair: bool
) -> tuple[list[findings.Finding], list[findings.Finding]]:
    """Return the remaining and the repaired findings."""
    findings_ = host.audit()
    repaired: list[findings.Finding] = []
    while repair:
        # a repair may reveal a finding, as the size of a recorded copy
        due = [
            finding
            for finding in findings_
            if finding.repair and finding not in repaired
        ]
        if not due:
            break
        repaired += host.repair(due)
        again = host.audit()
        if set(again) >= set(findings_):
            break
        findings_ = again
    return findings_, repaired


def _json(
    findings_: list[findings.Finding], repaired: list[findings.Finding]
) -> str:
    shown = {'findings': findings_, 'repaired': repaired}
    return json.dumps(shown, default=dataclasses.asdict, indent=2)


def _table(
    findings_: list[findings.Finding], repaired: list[findings.Finding]
) -> str:
    lines = []
    for title, listed in (('Repaired:', repaired), ('Findings:', findings_)):
        if listed:
            table = prettytable.PrettyTable(_COLUMNS, align='l')
            table.max_width = 48
            for finding in listed:
                table.add_row(
                    [
                        finding.kind,
                        finding.disk,
                        finding.vdisk or finding.owner,
                        finding.message,
                        finding.repair,
                        finding.advice,
                    ]
                )
            lines += [title, table.get_string()]
    return '\n'.join(lines) or 'Cinder, the disks and Placement agree.'
