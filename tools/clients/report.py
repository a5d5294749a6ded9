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


"""The checks of clients in words, and in the form of benchmarks' results."""

import collections
import collections.abc
import dataclasses
import datetime
import shlex
import typing

from tools import provenance
from tools.clients import checks
from tools.clients.checks import Check

#: What decides how requests of clients end, besides the clients.
MEASURED = (
    'doc/examples/terraform',
    'nova_diskplacer/api',
    'tools/clients',
    'tools/clients.sh',
)


def content(
    found: collections.abc.Sequence[Check],
    versions: collections.abc.Mapping[str, str],
    words: collections.abc.Sequence[str],
) -> dict[str, typing.Any]:
    """Return what ``--json`` writes.

    :param versions: by the names of programs.
    :param words: of the command line, without ``--json FILE``.
    """
    recorded = provenance.record(MEASURED)
    counts = collections.Counter(one.outcome for one in found)
    figures = {
        'checks': len(found),
        **{one.replace(' ', '_'): counts[one] for one in checks.OUTCOMES},
        'seconds': recorded['seconds'],
    }
    return {
        'benchmark': 'clients',
        'date': datetime.date.today().isoformat(),
        'command': shlex.join(['tools/clients.sh', *words]),
        **recorded,
        'figures': figures,
        'goals': [
            {'figure': name, 'op': '==', 'value': 0, 'met': not figures[name]}
            for name in ('different', 'not_run')
        ],
        'versions': dict(versions),
        'checks': [dataclasses.asdict(one) for one in found],
    }


def line(check: Check) -> str:
    """Return a check in words."""
    text = f'{check.outcome:12} {check.client}: {check.name}: '
    if check.outcome == checks.AS_EXPECTED:
        return text + check.found
    if check.outcome == checks.NOT_RUN:
        return f'{text}{check.found} (expected: {check.expected})'
    return f'{text}{check.found}\n{"":13}expected: {check.expected}'


def summary(found: collections.abc.Iterable[Check]) -> str:
    """Return how many checks came out how."""
    counts = collections.Counter(one.outcome for one in found)
    return ', '.join(f'{counts[one]} {one}' for one in checks.OUTCOMES)
