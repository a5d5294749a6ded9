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

"""Runs in the guest: its test suites, each of which must run as a whole."""

import argparse
import os
import pathlib
import subprocess
import sys
import time
import typing
import unittest

from tools.testbed import udev

# Seconds to wait for what ends by itself.
PATIENCE = 60
# Processes that come and go, or stay, whatever a suite does.
_SERVANTS = ('systemd-udevd', '(udev-worker)', 'dmeventd')


class TimedResult(unittest.TextTestResult):
    """Tells how long each test takes, and at once why one failed.

    So a slow one is seen, and all until the guest ends, whenever that is.
    """

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._begun = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self.stream.writeln(f'    {time.monotonic() - self._begun:.1f} s')
        self.stream.flush()

    def addError(self, test: unittest.TestCase, err: typing.Any) -> None:
        super().addError(test, err)
        self.printErrorList('ERROR', self.errors[-1:])

    def addFailure(self, test: unittest.TestCase, err: typing.Any) -> None:
        super().addFailure(test, err)
        self.printErrorList('FAIL', self.failures[-1:])

    def printErrors(self) -> None:
        """Print nothing again."""


def state() -> set[str]:
    """Return what a suite must not leave behind for the next one.

    That is what is mounted, mapped or in a cgroup, what disks hold, and who
    runs.
    """
    udev.settle()
    mounts = pathlib.Path('/proc/self/mounts').read_text().splitlines()
    found = {f'mount {line}' for line in mounts}
    devices = pathlib.Path('/sys/block')
    for path in devices.iterdir():
        found.add(f'device {path.name}')
        command = ('wipefs', '--noheadings', '--output', 'TYPE')
        done = subprocess.run(
            [*command, f'/dev/{path.name}'], capture_output=True, text=True
        )
        found |= {f'{one} on {path.name}' for one in done.stdout.split()}
    for directory, _, _ in os.walk('/sys/fs/cgroup'):
        found.add(f'cgroup {directory}')
    for path in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = os.fsdecode((path / 'cmdline').read_bytes()).split('\0')
        except (FileNotFoundError, ProcessLookupError):
            continue
        # the kernel's have no command line
        if words[0] and not words[0].endswith(_SERVANTS):
            found.add(f'process {path.name} {" ".join(words)}')
    return found


def run(package: str, tests: unittest.TestSuite, last: bool) -> bool:
    """Tell whether all tests of a package passed, of which there are some.

    They must also leave the guest as they found it, unless they are the last.
    """
    before = state()
    runner = unittest.TextTestRunner(
        verbosity=2, stream=sys.stdout, resultclass=TimedResult
    )
    result = runner.run(tests)
    deadline = time.monotonic() + PATIENCE
    left = state() - before
    # some of it may be just ending
    while left and not last and time.monotonic() < deadline:
        time.sleep(1)
        left = state() - before
    for one in sorted(left):
        print(f'left behind: {one}')
    failed = len(result.failures) + len(result.errors)
    failed += len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    if not last:
        failed += len(left)
    print(f'{package}: {passed} passed, {failed} failed, {skipped} skipped')
    return passed > 0 and not failed and not skipped


def apart(package: str, tests: unittest.TestSuite, last: bool) -> bool:
    """Do as ``run`` does in a process of its own."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        sys.exit(0 if run(package, tests, last) else 1)
    return os.waitpid(child, 0)[1] == 0


def main() -> int:
    """Run the tests of packages, one after another; 0 if all passed.

    All are imported before: that takes long, and most import the same.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('package', nargs='+')
    parser.add_argument('--only', action='append', default=[])
    args = parser.parse_args()
    # the commands that tests start have the checkout's packages
    os.environ['PYTHONPATH'] = os.getcwd()
    loader = unittest.TestLoader()
    if args.only:
        loader.testNamePatterns = [
            one if '*' in one else f'*{one}*' for one in args.only
        ]
    tests = {
        package: loader.discover(package, top_level_dir='.')
        for package in args.package
    }
    passed = [
        apart(package, tests[package], package == args.package[-1])
        for package in args.package
    ]
    return 0 if all(passed) else 1


if __name__ == '__main__':
    sys.exit(main())
