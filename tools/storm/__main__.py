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
import shutil
import signal
import sys
import tempfile
import time
import types
import typing

from tools.minicloud import moving
from tools.minicloud.cloud import Cloud
from tools.storm import killing
from tools.storm import moved_server
from tools.storm import options
from tools.storm import report
from tools.storm import storm


def main() -> int:
    args = options.parse(sys.argv[1:])
    if os.geteuid() != 0:
        print('tools/storm.sh: needs root', file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    return run(args)


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    # once: a second signal must not interrupt taking the cloud down
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def run(args: argparse.Namespace) -> int:
    """Have a storm and tell its outcome; returns the exit status."""
    path = tempfile.mkdtemp(prefix='diskplacer-storm-', dir='/var/tmp')
    print(f'seed {args.seed}, cloud in {path}', flush=True)
    cloud = Cloud(
        pathlib.Path(path), moved_server.HOSTS if args.moves else storm.HOSTS
    )
    try:
        with cloud:
            try:
                if args.moves:
                    content, is_well = _kill_moves(cloud, args)
                else:
                    content, is_well = _storm(cloud, args)
            finally:
                if args.logs:
                    shutil.copytree(cloud.state.logs, args.logs)
    finally:
        shutil.rmtree(path, ignore_errors=True)
    if args.json:
        args.json.write_text(json.dumps(content, indent=2) + '\n')
    return 0 if is_well else 1


def _storm(
    cloud: Cloud, args: argparse.Namespace
) -> tuple[dict[str, typing.Any], bool]:
    """Have a storm; returns what ``--json`` writes, and whether all holds."""
    begun = time.monotonic()
    rounds = options.rounds(args.minutes)
    found = storm.Storm(cloud, args.seed)
    found.run(rounds, args.minutes * 60 / rounds)
    outcome = found.outcome(
        round(time.monotonic() - begun), options.words(args)
    )
    for line in report.lines(outcome):
        print(line)
    return report.content(outcome), not outcome.own


def _kill_moves(
    cloud: Cloud, args: argparse.Namespace
) -> tuple[dict[str, typing.Any], bool]:
    """Kill while servers move; returns what ``_storm`` does."""
    killing_ = killing.Killing(
        cloud, moving.create_image(cloud), moving.create_flavor(cloud)
    )
    ended = []
    content: dict[str, typing.Any] = {}
    for kill in args.moves:
        ended.append(killing_.do(kill))
        print(ended[-1].line, flush=True)
        content = report.content_of_kills(ended, args.words)
        if args.json:
            # of a run that is interrupted, too
            args.json.write_text(json.dumps(content, indent=2) + '\n')
    return content, not any(one.violations for one in ended)


if __name__ == '__main__':
    sys.exit(main())
