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


"""``python -m tools.minicloud``: the demo, or a cloud to play with."""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import types

from tools.minicloud import cloud
from tools.minicloud import demo
from tools.minicloud import state

KEPT = '/var/tmp/diskplacer-demo'


def main() -> int:
    # tools/demo.sh prints the help
    parser = argparse.ArgumentParser(prog='tools/demo.sh', add_help=False)
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--stop', action='store_true')
    parser.add_argument('--state', type=pathlib.Path, metavar='DIR')
    parser.add_argument('--report', metavar='FILE')
    parser.add_argument('--network', action='store_true')
    parser.add_argument(
        '--spent', type=float, default=0, help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if os.geteuid() != 0:
        parser.error('needs root')
    path = args.state
    if path is None:
        path = pathlib.Path(
            KEPT
            if args.keep or args.stop
            else tempfile.mkdtemp(prefix='diskplacer-demo-', dir='/var/tmp')
        )
    existing = state.load(path)
    if args.stop:
        if existing is None:
            parser.error(f'{path}: no cloud there')
        cloud.stop(existing)
        return 0
    if existing is not None:
        parser.error(
            f'{path}: a cloud is there; take it down with '
            f'tools/demo.sh --stop --state {path}'
        )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    return demo.run(path, args.keep, args.report, args.spent, args.network)


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    # once: a second signal must not interrupt taking the cloud down
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


if __name__ == '__main__':
    sys.exit(main())
