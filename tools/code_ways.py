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

"""Count what a reader visits on a way through the code.

    python -m tools.code_ways TEST FUNCTION

runs a unit test, and follows the first call of a function, by its qualified
name such as ``Connections.create_export``. It prints the number of functions
of our packages that are called for it, of their files, and of returns: how
often the next new function is in a file that the reader has left before.
"""

import argparse
import os
import sys
import threading
import types
import unittest

PACKAGES = ('cinder_vdisk_mapper', 'diskplacer_measure', 'nova_diskplacer')
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Way:
    """The functions that are called from one function on, in order."""

    def __init__(self, entry: str) -> None:
        self._entry = entry
        self._depth = 0
        self._is_over = False
        self._last = ''
        self.functions: set[tuple[str, str]] = set()
        self.files: dict[str, int] = {}
        self.returns = 0

    def trace(self, frame: types.FrameType, event: str, _: object) -> None:
        """Note a call or a return, as ``sys.setprofile`` reports it."""
        if event not in ('call', 'return'):
            return
        code = frame.f_code
        path = os.path.relpath(code.co_filename, TOP)
        if path.partition(os.sep)[0] not in PACKAGES or '<' in code.co_name:
            return
        if event == 'return':
            self._depth = max(0, self._depth - 1)
            self._is_over |= bool(self.functions) and not self._depth
        elif self._depth or (
            code.co_qualname == self._entry and not self._is_over
        ):
            self._depth += 1
            self._visit(path, code.co_qualname)

    def _visit(self, path: str, name: str) -> None:
        if (path, name) in self.functions:
            return
        self.functions.add((path, name))
        if path != self._last:
            self.returns += path in self.files
        self.files[path] = self.files.get(path, 0) + 1
        self._last = path


def main() -> int:
    """Print the figures of a way."""
    parser = argparse.ArgumentParser(
        prog='python -m tools.code_ways',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('test', metavar='TEST', help='name of a unit test')
    parser.add_argument(
        'entry', metavar='FUNCTION', help='qualified name of a function'
    )
    args = parser.parse_args()
    test, entry = args.test, args.entry
    way = Way(entry)
    suite = unittest.defaultTestLoader.loadTestsFromName(test)
    threading.setprofile(way.trace)
    sys.setprofile(way.trace)
    result = unittest.TextTestRunner(verbosity=0).run(suite)
    sys.setprofile(None)
    if not result.wasSuccessful() or not way.functions:
        print(f'{entry} is not called, or the test fails', file=sys.stderr)
        return 1
    for path, number in way.files.items():
        print(f'{number:4} {path}')
    print(
        f'{entry}: {len(way.functions)} functions, {len(way.files)} files, '
        f'{way.returns} returns'
    )
    return 0


if __name__ == '__main__':
    sys.exit(main())
