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

"""Types of the arguments of commands."""

import argparse
import collections.abc
import re

# The largest number of an argument without a limit of its own: larger ones
# are no exact floats, and overflow in sums.
_MOST = 10**15

_PLAIN: dict[type, re.Pattern[str]] = {
    int: re.compile('[0-9]{1,20}'),
    float: re.compile('[0-9]{0,20}[.]?[0-9]{1,20}'),
}


def number(
    kind: type[int] | type[float], least: float, most: float = _MOST
) -> collections.abc.Callable[[str], float]:
    """Return the type of an argument: a number of decimal digits in a range.

    :param least: not negative, as ``most``.
    """
    limits = f'{"an integer" if kind is int else "a number"} of at least '
    limits += f'{least}, at most {most}'

    def parse(text: str) -> float:
        # int() and float() take more, such as 1_000, spaces and other digits
        if _PLAIN[kind].fullmatch(text) and least <= kind(text) <= most:
            return kind(text)
        raise argparse.ArgumentTypeError(f'{text!r} is not {limits}')

    return parse
