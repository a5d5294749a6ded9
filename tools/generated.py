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

"""The command of scripts that write the results into a file of the project."""

import argparse
import collections.abc
import pathlib
import sys


def main(
    description: str | None,
    path: pathlib.Path,
    script: str,
    written: collections.abc.Callable[[str], str],
) -> int:
    """Write a file as it should be, or with --check compare it only.

    :param script: how to run it, for who has to.
    :param written: the text of the file as it should be, from that of now.
    :returns: the exit status: 1 if a compared file differs.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        '--check', action='store_true', help='write nothing, and compare'
    )
    args = parser.parse_args()
    text = path.read_text()
    wanted = written(text)
    if text == wanted:
        return 0
    if args.check:
        print(f'{path.name}: run {script}', file=sys.stderr)
        return 1
    path.write_text(wanted)
    return 0
