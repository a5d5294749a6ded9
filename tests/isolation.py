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

"""Loads and runs each package of tests in a process of its own.

Nova and Cinder register options of the same names, so that their code cannot
be imported into one process. The functions here let ``stestr run`` and
``python -m testtools.run`` handle packages of both nevertheless.
"""

import json
import os
import pathlib
import unittest

import subunit
import testtools
from testtools import testsuite

TOP = pathlib.Path(__file__).parents[1]


class PackageSuite(unittest.TestSuite):
    """The tests of a package; only forked processes import it."""

    def __init__(self, loader, path, ids=None):
        """Create the suite.

        :param path: directory of the package.
        :param ids: IDs of the tests to run; None: all.
        """
        super().__init__()
        self._loader = loader
        self._path = path
        self._ids = ids

    def __iter__(self):
        return map(testtools.PlaceHolder, self._list())

    def countTestCases(self):
        return len(self._list())

    def filter_by_ids(self, ids):
        """Return a suite with some of the tests; testtools calls this."""
        *above, name = self._path.relative_to(TOP).parts
        above = '.'.join((*above, ''))
        # hypothesis names its own package in the IDs of state machines
        ids = {
            test
            for test in ids
            if test.startswith(f'{above}{name}.') or not test.startswith(above)
        }
        if not ids:
            return unittest.TestSuite()
        return PackageSuite(self._loader, self._path, ids)

    def run(self, result, debug=False):
        return subunit.run_isolated(_InThisProcess, self, result)

    def load(self):
        """Import the package; returns the suite of its tests."""
        suite = self._load()
        if self._ids is None:
            return suite
        return testsuite.filter_by_ids(suite, self._ids)

    def _load(self):
        return self._loader.discover(str(self._path), top_level_dir=str(TOP))

    def _list(self):
        """Return the IDs of all tests, in order; errors go to the loader."""
        if self._ids is not None:
            return sorted(self._ids)
        reading, writing = os.pipe()
        process = os.fork()
        if not process:
            try:
                with os.fdopen(writing, 'w') as stream:
                    tests = testsuite.iterate_tests(self._load())
                    ids = [test.id() for test in tests]
                    json.dump([ids, self._loader.errors], stream)
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as stream:
            listed = stream.read()
        os.waitpid(process, 0)
        ids, errors = json.loads(listed)
        self._loader.errors.extend(errors)
        return ids


class _InThisProcess:
    @staticmethod
    def run(suite, result):
        suite.load().run(result)


def load_packages(loader, file):
    """Return a suite of the packages beside a package's ``__init__.py``."""
    return unittest.TestSuite(
        PackageSuite(loader, path.parent)
        for path in sorted(pathlib.Path(file).parent.glob('*/__init__.py'))
    )
