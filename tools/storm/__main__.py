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

from tools.minicloud.cloud import Cloud
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
    rounds = options.rounds(args.minutes)
    begun = time.monotonic()
    cloud = Cloud(pathlib.Path(path), storm.HOSTS)
    try:
        with cloud:
            try:
                found = storm.Storm(cloud, args.seed)
                found.run(rounds, args.minutes * 60 / rounds)
                outcome = found.outcome(
                    round(time.monotonic() - begun), options.words(args)
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


if __name__ == '__main__':
    sys.exit(main())
