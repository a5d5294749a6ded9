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

"""Arguments and output that the commands of diskplacer-manage share."""

import argparse
import collections.abc
import json
import sys
from typing import Any

import prettytable

# Characters of a column of long texts.
_LONG = 45

Handler = collections.abc.Callable[..., int]


def add_command(
    commands: Any,
    name: str,
    handler: Handler,
    summary: str,
    description: str = '',
) -> argparse.ArgumentParser:
    """Add a command to an argparse parser's subparsers.

    :param handler: called with (conf, args); returns the exit status and
        raises ``DiskPlacerError``.
    :param description: default: the summary.
    """
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description or summary
    )
    command.set_defaults(handler=handler)
    return command


def add_format(command: argparse.ArgumentParser) -> None:
    """Add the option for the format of the output."""
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )


def write_progress(text: str) -> None:
    """Write progress to the standard error, at once."""
    print(text, end='', file=sys.stderr, flush=True)


def print_json(fields: Any) -> None:
    """Print JSON; dataclasses become objects."""
    print(json.dumps(fields, indent=2, default=vars))


def make_table(
    columns: collections.abc.Sequence[str],
    rows: collections.abc.Iterable[collections.abc.Sequence[Any]],
    long: collections.abc.Iterable[str] = (),
) -> prettytable.PrettyTable:
    """Return a table; the columns ``long`` are wrapped."""
    table = prettytable.PrettyTable(columns, align='l')
    # earlier releases of PrettyTable accept a number only
    table.max_width.update(dict.fromkeys(long, _LONG))
    table.add_rows(list(rows))
    return table
