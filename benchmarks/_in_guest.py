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

"""Runs a part of a benchmark in the testbed's guest."""

import json
import pathlib
import sys
import typing

from tools.testbed import Testbed

_TOP = pathlib.Path(__file__).parents[1]
_TIMEOUT_S = 4 * 3600


def run(
    bed: Testbed, script: str, *arguments: str, **settings: typing.Any
) -> typing.Any:
    """Return the JSON on the last line that the script prints.

    :param script: name of a file in benchmarks, which gets the arguments and
        then the settings as JSON.
    """
    path = pathlib.Path(__file__).with_name(script)
    printed = bed.run(
        'python', '-W', 'ignore', str(path),
        *arguments, json.dumps(settings),
        env={'PYTHONPATH': str(_TOP)},
        timeout=_TIMEOUT_S,
        say=_say,
    ).out  # fmt: skip
    return json.loads(printed.splitlines()[-1])


def _say(name: str, text: str) -> None:
    if name == 'err':
        sys.stderr.write(text)
