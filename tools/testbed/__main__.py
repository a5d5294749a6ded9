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

"""The command line of the testbed; see doc/source/contributor/testbed.rst."""

import argparse
import importlib
import itertools
import pathlib
import signal
import sys
import types
import typing

from tools import whole_cloud
from tools.minicloud import guest
from tools.testbed import bed
from tools.testbed import commands
from tools.testbed import image
from tools.testbed import machine

TIMEOUT = 3600
# Of a whole cloud: memory, seconds, and how many times longer than on this
# machine all may take there.
CLOUD_MIB = 9216
CLOUD_TIMEOUT = 6 * 3600
SLOWER = 10
_OUTCOME = '/root/outcome.json'


def say(name: str, text: str) -> None:
    stream = sys.stdout if name == 'out' else sys.stderr
    stream.write(text)
    stream.flush()


def suites() -> list[str]:
    """Return the names of the suites for the guest."""
    found = (bed.TOP / 'tests' / 'testbed').glob('*/__init__.py')
    return sorted(path.parent.name for path in found)


def _package(suite: str, name: str, default: typing.Any) -> typing.Any:
    """Return what a suite's package says about it."""
    package = importlib.import_module(f'tests.testbed.{suite}')
    return getattr(package, name, default)


def disks(suite: str) -> tuple[machine.Disk, ...]:
    """Return the disks that a suite needs."""
    return tuple(_package(suite, 'DISKS', machine.DISKS))


def groups(*, long: bool = False) -> list[list[str]]:
    """Return the names of suites, those together that can share a guest.

    They need the same disks.

    :param long: return those that take long, instead of the others.
    """
    found: dict[tuple[machine.Disk, ...], list[str]] = {}
    for name in suites():
        if _package(name, 'LONG', False) == long:
            found.setdefault(disks(name), []).append(name)
    return list(found.values())


def run(args: argparse.Namespace) -> int:
    with bed.Testbed(args.disk or machine.DISKS, args.memory) as running:
        result = running.run(
            *args.command, check=False, say=say, timeout=args.timeout
        )
        if args.console:
            say('err', running.console())
        return result.rc if result.rc >= 0 else 128 - result.rc


def test(args: argparse.Namespace) -> int:
    known = suites()
    names = list(itertools.takewhile(known.__contains__, args.word))
    if not names:
        print(
            f'{args.word[0]}: none of the suites {", ".join(known)}',
            file=sys.stderr,
        )
        return 2
    needed = {tuple(args.disk or disks(name)) for name in names}
    if len(needed) > 1:
        print(f'{", ".join(names)}: they need other disks', file=sys.stderr)
        return 2
    patterns = [f'--only={one}' for one in args.word[len(names) :]]
    alone = [[name] for name in names if _package(name, 'ALONE', False)]
    together = [name for name in names if [name] not in alone]
    failed = False
    with bed.Testbed(needed.pop(), args.memory) as running:
        for some in filter(None, [together, *alone]):
            result = running.run(
                'python', '-W', 'ignore', '-m', 'tools.testbed.suite',
                *(f'tests/testbed/{name}' for name in some), *patterns,
                check=False, say=say, timeout=args.timeout,
            )  # fmt: skip
            failed = failed or result.rc != 0
        if failed:
            say('out', f"-- the guest's console:\n{running.console()}")
    return 1 if failed else 0


def cloud(args: argparse.Namespace) -> int:
    # what the guest cannot make there: it has no network, and only reads
    guest.build()
    pathlib.Path(sys.prefix, 'databases').mkdir(exist_ok=True)
    with bed.Testbed(
        whole_cloud.DISKS, args.memory, whole_cloud=True
    ) as running:
        result = running.run(
            *('python', '-W', 'ignore', '-m', 'tools.whole_cloud', _OUTCOME),
            check=False,
            say=say,
            timeout=args.timeout,
            env={'PYTHONPATH': str(bed.TOP), 'MINICLOUD_SLOWER': str(SLOWER)},
        )
        if args.json:
            outcome = running.run('cat', _OUTCOME).out
            pathlib.Path(args.json).write_text(outcome)
    return result.rc


def build(args: argparse.Namespace) -> int:
    print(image.build())
    return 0


def clean(args: argparse.Namespace) -> int:
    image.clean()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='tools/testbed.sh')
    verbs = parser.add_subparsers(dest='verb', required=True)
    verbs.add_parser('build', help='make the image now').set_defaults(
        call=build
    )
    verbs.add_parser('clean', help='remove the image').set_defaults(call=clean)
    machines = argparse.ArgumentParser(add_help=False)
    machines.add_argument(
        '--disk',
        action='append',
        type=machine.Disk.parse,
        metavar='node=N,gib=N,mbps=N,iops=N',
        help='a disk, for each time given',
    )
    machines.add_argument(
        '--memory', type=int, default=bed.MEMORY_MIB, metavar='MIB'
    )
    machines.add_argument(
        '--timeout', type=float, default=TIMEOUT, metavar='SECONDS'
    )
    one = verbs.add_parser(
        'run', parents=[machines], help='run a command in a guest'
    )
    one.add_argument(
        '--console', action='store_true', help="show the guest's console"
    )
    one.add_argument('command', nargs=argparse.REMAINDER)
    one.set_defaults(call=run)
    one = verbs.add_parser(
        'test', parents=[machines], help='run tests/testbed/NAME in a guest'
    )
    one.add_argument(
        'word',
        nargs='+',
        metavar='NAME... [TEST...]',
        help='the suites, one after another in the same guest, and then, '
        'for only some tests, what they have in their names',
    )
    one.set_defaults(call=test)
    one = verbs.add_parser(
        'cloud', help='run a whole cloud in a guest, and move its servers'
    )
    one.add_argument('--memory', type=int, default=CLOUD_MIB, metavar='MIB')
    one.add_argument(
        '--timeout', type=float, default=CLOUD_TIMEOUT, metavar='SECONDS'
    )
    one.add_argument('--json', metavar='FILE', help='write the outcome')
    one.set_defaults(call=cloud)
    return parser


def _end(number: int, frame: types.FrameType | None) -> typing.NoReturn:
    sys.exit(128 + number)


def main() -> int:
    parser = _parser()
    args = parser.parse_args()
    if args.verb == 'run' and args.command[:1] == ['--']:
        args.command.pop(0)
    if args.verb == 'run' and not args.command:
        parser.error('run: which command?')
    signal.signal(signal.SIGTERM, _end)
    try:
        return int(args.call(args))
    except (image.ImageError, commands.CommandError) as error:
        print(f'tools/testbed.sh: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
