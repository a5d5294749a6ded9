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

"""diskplacer-manage sizing collect: counters of a server under a load."""

import argparse
import contextlib
import random
from typing import Any

from oslo_config import cfg

from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import pinning
from diskplacer_measure.sizing import runs
from diskplacer_measure.sizing import samples
from nova_diskplacer import arguments
from nova_diskplacer import exit_status
from nova_diskplacer import terminal
from nova_diskplacer.cmd import shell
from nova_diskplacer.host import cpus
from nova_diskplacer.host import files
from nova_diskplacer.host import libvirt_servers


def register(commands: Any) -> None:
    """Add the command to the subparsers of ``diskplacer-manage sizing``."""
    command = shell.add_command(
        commands,
        'collect',
        _collect,
        'count what a server of this host does while a load runs',
        'Runs a command, and adds a line to a file with the running time and '
        'the counters of the server. With --pin each run is made '
        'twice in random order, with each vCPU on a CPU of its own and with '
        'all vCPUs on all of these CPUs; the CPUs are restored in the end. '
        'The running time is the number "seconds" if the command prints a '
        'JSON object with it, as sizing load --format json does.',
    )
    command.epilog = 'Counters: ' + '; '.join(
        f'{name}: {text}' for name, text in counters.TEXTS.items()
    )
    command.add_argument(
        '--server', required=True, metavar='UUID', help='server of this host'
    )
    command.add_argument(
        '--output', required=True, metavar='FILE', help='file to add lines to'
    )
    command.add_argument(
        '--runs',
        type=arguments.number(int, 1),
        default=1,
        help='number of runs, of pairs of runs with --pin (default: '
        '%(default)s)',
    )
    command.add_argument(
        '--pin',
        metavar='CPUS',
        help='CPUs of this host, as 1-3: as many as the server has vCPUs, or '
        'more',
    )
    command.add_argument(
        'command_line',
        nargs='+',
        metavar='COMMAND',
        help='command and its arguments, after --',
    )


def _collect(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    terminal.exit_on_signals()
    try:
        # other runs would be in the figures
        with files.sole(
            'sizing',
            errors.SizingError(
                'another diskplacer-manage sizing collect runs on this host'
            ),
        ):
            _make_runs(conf, args)
    except KeyboardInterrupt:
        shell.write_progress(
            f'\nInterrupted: {args.output} has the runs before.\n'
        )
        return exit_status.INTERRUPTED
    return exit_status.OK


def _make_runs(conf: cfg.ConfigOpts, args: argparse.Namespace) -> None:
    uri: str = conf.diskplacer_agent.libvirt_uri
    samples.check_writable(args.output)
    todo = runs.plan(
        args.runs,
        args.pin is not None,
        runs.next_block(samples.read(args.output)),
        random.SystemRandom(),
    )

    with _changed_pins(conf, args) as pins:
        for count, run in enumerate(todo, 1):
            name = f'run {count} of {len(todo)} {run.vcpus_are}'.rstrip()
            shell.write_progress(f'{name} ...\n')
            if pins:
                pins.apply(run.vcpus_are)
            sample = runs.make(
                run,
                lambda: runs.execute(args.command_line),
                lambda: counters.read(uri, args.server),
            )
            samples.append(args.output, sample)
            shell.write_progress(f'{name}: {sample.seconds:.1f} s\n')


def _changed_pins(
    conf: cfg.ConfigOpts, args: argparse.Namespace
) -> contextlib.AbstractContextManager[pinning.Pins | None]:
    """Return the pins of the server that last as long as the context."""
    if args.pin is None:
        return contextlib.nullcontext()
    return pinning.changed(conf, args.server, _pinned_cpus(conf, args))


def _pinned_cpus(conf: cfg.ConfigOpts, args: argparse.Namespace) -> cpus.Cpus:
    """Return the CPUs to pin the one server to.

    :raises DiskPlacerError: they are not as they must be for the server.
    """
    try:
        cpu_set = cpus.parse(args.pin)
    except ValueError as error:
        raise errors.SizingError(f'--pin {error}') from error
    running = {
        server.uuid: server
        for server in libvirt_servers.list_servers(
            conf.diskplacer_agent.libvirt_uri
        )
        if server.running
    }
    if args.server not in running:
        raise errors.SizingError(
            f'--server {args.server}: no server of Nova that runs on this host'
        )
    pinning.check(
        running[args.server],
        cpu_set,
        cpus.read(),
        cpus.read_nova_sets(conf.diskplacer_agent.nova_conf),
    )
    return cpu_set
