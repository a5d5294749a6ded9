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

"""diskplacer-manage top: what servers do to the disks of this host, live.

The agent is asked; nothing is measured here.
"""

import argparse
import collections.abc
import contextlib
import curses
import os
import shutil
import sys
import time
import typing

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.cmd import screen
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket

_QUIT = (ord('q'), ord('Q'), 27)

Draw = collections.abc.Callable[[list[screen.Line]], None]


def register(subparsers: typing.Any) -> None:
    """Add the ``top`` command to an argparse parser's subparsers."""
    parser = subparsers.add_parser(
        'top',
        help='what servers do to the disks of this host, live',
        description='Shows the I/O of each disk of this host and of each '
        'server on them, with the weights that the agent has decided on, the '
        'busiest first. It takes root and asks the agent, which must run. '
        'q ends it. Without a terminal it writes one view after the other.',
    )
    parser.add_argument(
        '--once', action='store_true', help='show one view and end'
    )
    parser.add_argument(
        '--interval',
        type=_seconds,
        metavar='SECONDS',
        help='time between two views (default: [diskplacer_monitor] interval)',
    )
    parser.add_argument(
        '--format',
        choices=('table', 'json'),
        default='table',
        help='json: a line for each view, with all that the agent knows '
        '(default: %(default)s)',
    )
    parser.set_defaults(handler=_top)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number from 0.1 to 3600'
        )
    return seconds


def _top(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    state_dir = conf.diskplacer_agent.state_dir
    interval = args.interval or conf.diskplacer_monitor.interval
    # fails before the screen is cleared
    first = status_socket.ask(state_dir)
    with contextlib.suppress(KeyboardInterrupt):
        if args.once or args.format == 'json' or not sys.stdout.isatty():
            _print(first, state_dir, interval, args)
        else:
            _live(state_dir, interval)
    return 0


def _print(
    state: status.Snapshot | None,
    state_dir: str,
    interval: float,
    args: argparse.Namespace,
) -> None:
    try:
        while True:
            sys.stdout.write(_text(state, args.format))
            sys.stdout.flush()
            if args.once:
                return
            time.sleep(interval)
            state = status_socket.ask(state_dir)
    except BrokenPipeError:
        # nobody reads any more; nothing may be flushed at the exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(state: status.Snapshot | None, format_: str) -> str:
    if format_ == 'json':
        return status.to_json(state) + '\n'
    width = None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    lines = screen.lines(state, time.time(), width, None)
    return '\n'.join(line.text for line in lines) + '\n\n'


def _live(state_dir: str, interval: float) -> None:
    """Draw on the terminal until a key ends it.

    :raises ContentionError: the terminal cannot be drawn on.
    """
    try:
        curses.wrapper(_draw, state_dir, interval)
    except curses.error as error:
        raise exception.ContentionError(
            f'the terminal, TERM={os.environ.get("TERM", "")}, cannot be '
            f'drawn on ({error}): use --once'
        ) from error


def _draw(window: curses.window, state_dir: str, interval: float) -> None:
    with contextlib.suppress(curses.error):
        curses.curs_set(0)
    looks = {
        screen.PLAIN: curses.A_NORMAL,
        screen.HEAD: curses.A_REVERSE,
        screen.STRONG: curses.A_BOLD,
        screen.FAINT: curses.A_DIM,
    }
    while True:
        height, width = window.getmaxyx()
        window.erase()
        # the cell at the lower right cannot be written
        lines = _look(state_dir, max(1, width - 1), height)
        for row, line in enumerate(lines):
            # characters that are wider than others may not fit
            with contextlib.suppress(curses.error):
                window.addstr(row, 0, line.text, looks[line.look])
        window.refresh()
        end = time.monotonic() + interval
        while (left := end - time.monotonic()) > 0:
            window.timeout(int(left * 1000))
            key = window.getch()
            if key in _QUIT:
                return
            if key == curses.KEY_RESIZE:
                break


def _look(state_dir: str, width: int, height: int) -> list[screen.Line]:
    try:
        state = status_socket.ask(state_dir)
    except exception.ContentionError as error:
        # it may be starting again
        return screen.message(str(error), width, height)
    return screen.lines(state, time.time(), width, height)
