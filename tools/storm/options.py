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


"""The options of tools/storm.sh."""

import argparse
import collections.abc
import pathlib
import random

from tools.storm import kills

MINUTES = 15
LONG = 60
# A round has no more, so that a violation is found soon after its cause.
ROUND = 7.5


def parse(words: collections.abc.Sequence[str]) -> argparse.Namespace:
    """Return ``minutes``, ``moves``, ``seed``, ``json`` and ``logs``.

    ``moves`` are the kills of a storm of server moves, none for another one,
    and ``words`` those that have chosen them.
    """
    # tools/storm.sh prints the help
    parser = argparse.ArgumentParser(prog='tools/storm.sh', add_help=False)
    parser.set_defaults(minutes=MINUTES)
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        '--long', action='store_const', const=LONG, dest='minutes'
    )
    length.add_argument('--minutes', type=_minutes)
    length.add_argument('--moves', nargs='*', metavar='WORD')
    parser.add_argument(
        '--seed', type=int, default=random.SystemRandom().randrange(10**6)
    )
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    parser.add_argument('--logs', type=pathlib.Path, metavar='DIR')
    args = parser.parse_args(words)
    if args.logs and args.logs.exists():
        parser.error(f'--logs {args.logs}: it exists already')
    if args.json and not args.json.parent.is_dir():
        parser.error(f'--json {args.json}: no such directory')
    args.words = args.moves or []
    try:
        args.moves = () if args.moves is None else kills.select(args.moves)
    except LookupError as error:
        parser.error(f'--moves {error}')
    return args


def _minutes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of minutes above 0'
        )
    return int(text)


def rounds(minutes: int) -> int:
    """Return into how many rounds a storm is divided."""
    return max(1, round(minutes / ROUND))


def words(args: argparse.Namespace) -> list[str]:
    """Return the options of the same storm."""
    length = ['--minutes', str(args.minutes)]
    if args.minutes == MINUTES:
        length = []
    elif args.minutes == LONG:
        length = ['--long']
    return [*length, '--seed', str(args.seed)]
