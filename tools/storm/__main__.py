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


"""``python -m tools.storm``: a storm on a cloud of its own."""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import types

from tools.minicloud.cloud import Cloud
from tools.storm import report
from tools.storm import storm

MINUTES = 15
LONG = 60
# A round has no more, so that a violation is found soon after its cause.
ROUND = 7.5


def main() -> int:
    parser = argparse.ArgumentParser(
        prog='tools/storm.sh',
        description='Let a storm of faults come over a real OpenStack of '
        'this machine, and check that nothing is lost. Takes root.',
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        '--long',
        action='store_const',
        const=LONG,
        dest='minutes',
        help=f'have faults for {LONG} minutes',
    )
    length.add_argument(
        '--minutes',
        type=_minutes,
        default=MINUTES,
        help='how long to have faults (default: %(default)s)',
    )
    parser.add_argument(
        '--seed',
        type=int,
        default=random.SystemRandom().randrange(10**6),
        help='that of an earlier storm, for the same faults and operations',
    )
    parser.add_argument(
        '--json', type=pathlib.Path, metavar='FILE', help='write the outcome'
    )
    parser.add_argument(
        '--logs',
        type=pathlib.Path,
        metavar='DIR',
        help='copy the logs of all services to a new directory',
    )
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error('needs root')
    if args.logs and args.logs.exists():
        parser.error(f'--logs {args.logs}: it exists already')
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    return run(args)


def _minutes(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number of minutes above 0'
        )
    return int(text)


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    # once: a second signal must not interrupt taking the cloud down
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def run(args: argparse.Namespace) -> int:
    """Have a storm and tell its outcome; returns the exit status."""
    path = tempfile.mkdtemp(prefix='diskplacer-storm-', dir='/var/tmp')
    print(f'seed {args.seed}, cloud in {path}', flush=True)
    rounds = max(1, round(args.minutes / ROUND))
    begun = time.monotonic()
    cloud = Cloud(pathlib.Path(path), storm.HOSTS)
    try:
        with cloud:
            try:
                found = storm.Storm(cloud, args.seed)
                found.run(rounds, args.minutes * 60 / rounds)
                outcome = found.outcome(
                    round(time.monotonic() - begun), _command(args)
                )
            finally:
                if args.logs:
                    shutil.copytree(cloud.state.logs, args.logs)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    for line in report.lines(outcome):
        print(line)
    if args.json:
        text = json.dumps(report.content(outcome), indent=2)
        args.json.write_text(text + '\n')
    return 1 if outcome.own else 0


def _command(args: argparse.Namespace) -> list[str]:
    """Return the arguments of the same storm."""
    length = {
        MINUTES: [],
        LONG: ['--long'],
    }.get(args.minutes, ['--minutes', str(args.minutes)])
    return [*length, '--seed', str(args.seed)]


if __name__ == '__main__':
    sys.exit(main())
