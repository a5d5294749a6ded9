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

"""Runs in the guest: one of its test suites, which must run as a whole."""

import argparse
import sys
import time
import typing
import unittest


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


def main() -> int:
    """Run the tests of a package; 0 if all of at least one passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('package')
    parser.add_argument('pattern', nargs='*')
    args = parser.parse_args()
    loader = unittest.TestLoader()
    if args.pattern:
        loader.testNamePatterns = [
            one if '*' in one else f'*{one}*' for one in args.pattern
        ]
    tests = loader.discover(args.package, top_level_dir='.')
    runner = unittest.TextTestRunner(
        verbosity=2, stream=sys.stdout, resultclass=TimedResult
    )
    result = runner.run(tests)
    failed = len(result.failures) + len(result.errors)
    failed += len(result.unexpectedSuccesses)
    skipped = len(result.skipped)
    passed = result.testsRun - failed - skipped
    print(
        f'{args.package}: {passed} passed, {failed} failed, {skipped} skipped'
    )
    return 0 if passed > 0 and not failed and not skipped else 1


if __name__ == '__main__':
    sys.exit(main())
