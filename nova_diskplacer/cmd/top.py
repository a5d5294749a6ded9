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

"""diskplacer-manage top: the I/O of this host's servers and disks, live.

The agent measures; the command reads its status.
"""

import argparse
import contextlib
import os
import select
import sys
import termios
import time
import tty
import typing

from oslo_config import cfg
from rich import console as rich_console
from rich import live as rich_live

from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer.cmd import shell
from nova_diskplacer.cmd import top_view
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket

# Columns and rows of a view that is not limited by a terminal.
_UNLIMITED = 10_000


def register(subparsers: typing.Any) -> None:
    """Add the ``top`` command to an argparse parser's subparsers."""
    parser = shell.add_command(
        subparsers,
        'top',
        _top,
        "show the I/O of this host's servers and disks, live",
        'Shows the I/O of each disk of this host and of each '
        'server on it, and the weights that the agent has decided on, the '
        'busiest first. The agent must run, and the command needs root. q '
        'ends it. Without a terminal it writes one view after the other.',
    )
    parser.add_argument(
        '--once', action='store_true', help='write one view and end'
    )
    parser.add_argument(
        '--interval',
        type=arguments.number(float, 0.1, 3600),
        metavar='SECONDS',
        help='time between two views (default: [diskplacer_monitor] interval)',
    )
    parser.add_argument(
        '--format',
        choices=('table', 'json'),
        default='table',
        help='json writes a line for each view, with all figures of the '
        'agent (default: %(default)s)',
    )


def _top(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    state_dir = conf.diskplacer_agent.state_dir
    interval = args.interval or conf.diskplacer_monitor.interval
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    with contextlib.suppress(KeyboardInterrupt):
        if args.once or args.format == 'json' or not terminal:
            _write(state_dir, interval, args)
        else:
            # raise errors before the screen is cleared
            status_socket.fetch(state_dir)
            _show(state_dir, interval)
    return 0


def _write(state_dir: str, interval: float, args: argparse.Namespace) -> None:
    while True:
        state = status_socket.fetch(state_dir)
        print(_text(state, args.format), flush=True)
        if args.once:
            return
        time.sleep(interval)


def _text(state: status.Status | None, format_: str) -> str:
    if format_ == 'json':
        return status.to_json(state)
    width = None if sys.stdout.isatty() else _UNLIMITED
    console = rich_console.Console(width=width, highlight=False)
    with console.capture() as text:
        console.print(
            top_view.view(state, time.time(), console.width, _UNLIMITED)
        )
    return text.get()


def _show(state_dir: str, interval: float) -> None:
    """Draw on the terminal until ``q`` is pressed.

    :raises ContentionError: the terminal cannot be drawn on.
    """
    console = rich_console.Console(highlight=False)
    if console.is_dumb_terminal:
        raise exception.ContentionError(
            f'the terminal, TERM={os.environ["TERM"]}, cannot be drawn on: '
            'use --once'
        )
    live = rich_live.Live(console=console, screen=True, auto_refresh=False)
    settings = termios.tcgetattr(sys.stdin)
    try:
        # each key can be read when it is pressed, and is not shown
        tty.setcbreak(sys.stdin)
        with live:
            while True:
                try:
                    state = status_socket.fetch(state_dir)
                    view = top_view.view(state, time.time(), *console.size)
                except exception.AgentError as error:
                    # the agent may be restarting
                    view = str(error)
                live.update(view, refresh=True)
                if _is_quit_pressed(interval):
                    return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)


def _is_quit_pressed(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if not select.select([sys.stdin], [], [], left)[0]:
            break
        # nothing can be read once the terminal is closed
        if os.read(sys.stdin.fileno(), 1) in (b'q', b'Q', b''):
            return True
    return False
