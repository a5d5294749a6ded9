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

"""diskplacer-agent: watches and reports the disks of a compute node."""

import argparse
import logging
import os
import signal
import sys
import threading

from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.agent import restore
from nova_diskplacer.agent import service
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import outcome
from nova_diskplacer.host import systemd
from nova_diskplacer.placement import client as placement_client

# Seconds that the agent waits at its end until the disks are checked and
# weights restored; less than TimeoutStopSec of the unit.
_GRACE = 10


@outcome.command('diskplacer-agent')
def main() -> int:
    """Run the agent until a signal ends it."""
    parser = argparse.ArgumentParser(
        prog='diskplacer-agent',
        description='Watches the prepared disks of this compute node, keeps '
        'their resource providers in Placement and reports them to the '
        'schedulers. Other arguments are options of oslo.config and '
        'oslo.log, such as --debug.',
        allow_abbrev=False,
    )
    common.add_config_file(parser)
    parser.add_argument(
        '--restore',
        action='store_true',
        help='restore the I/O weights and io.cost settings that an agent has '
        'changed, and end; for an agent that could not restore them itself',
    )
    args, rest = parser.parse_known_args()
    if args.restore:
        return _restore(args.config_file, rest)
    endings = common.block_endings()
    common.configure(args.config_file, rest)
    agent = service.Agent(
        conf.CONF,
        placement_client.PlacementClient.from_conf(conf.CONF),
        common.transport(),
    )
    work = threading.Thread(target=agent.run, daemon=True)
    work.start()
    systemd.notify_ready(conf.CONF.diskplacer_monitor.interval)
    signal.sigwait(endings)
    agent.stop()
    work.join(_GRACE)
    # threads that wait for Placement or the message bus would keep it alive
    logging.shutdown()
    os._exit(0)


def _restore(config_files: list[str] | None, rest: list[str]) -> int:
    status = 0
    options = conf.CONF
    try:
        common.configure(config_files, rest)
    except exception.DiskPlacerError as error:
        # weights must be restored despite an invalid option: use the default
        # state directory
        print(f'diskplacer-agent: {error}', file=sys.stderr)
        status = 1
        options = cfg.ConfigOpts()
        conf.register_opts(options)
        options([], default_config_files=[])
    try:
        restore.restore_kernel_state(options)
    except exception.DiskPlacerError as error:
        print(f'diskplacer-agent: {error}', file=sys.stderr)
        status = 1
    return status
