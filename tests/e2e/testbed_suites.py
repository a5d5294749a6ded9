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

"""Tests that run the suites of tests/testbed, each in a guest."""

import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).parents[2]
SCRIPT = TOP / 'tools' / 'testbed.sh'
# Seconds for the suites of a guest: a few times what they take.
TIMEOUT = 3600
# What unittest says about a test that failed in the guest.
_FAILURE = re.compile(
    r'^={70}\n((?:ERROR|FAIL): .*?)(?=^={70}\n|^-{70}\nRan )', re.M | re.S
)


def environment():
    return {**os.environ, 'DISKPLACER_VENV': sys.prefix}


def add_tests(test_case, groups):
    """Give a test case a test for each group of suites.

    :param groups: the names of the suites of each, which share a guest.
    """
    for names in groups:
        setattr(test_case, f'test_{"_".join(names)}', _test(names))


def _test(names):
    def test(self):
        done = subprocess.run(
            [SCRIPT, 'test', '--timeout', str(TIMEOUT), *names],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # last, because readers of CI see the end of a failed test's text
        failures = _FAILURE.findall(done.stdout)
        self.assertEqual(
            0, done.returncode, '\n'.join([done.stdout, *failures])
        )
        for name in names:
            self.assertRegex(
                done.stdout,
                rf'tests/testbed/{name}: \d+ passed, 0 failed, 0 skipped',
            )

    return test
