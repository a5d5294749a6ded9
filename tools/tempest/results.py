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


"""What tests came to, and whether it is explained."""

import collections
import collections.abc
import dataclasses
import pathlib
import re
import tomllib
import typing

import subunit
import testtools

PASSED = 'passed'
FAILED = 'failed'
SKIPPED = 'skipped'
STATUSES = {'success': PASSED, 'xfail': PASSED, 'skip': SKIPPED}
SET_UP = re.compile(r'(setUp|tearDown)Class \((?P<name>.*)\)')
# what tempest appends to the name of a test
TAGS = re.compile(r'\[.*\]$')


@dataclasses.dataclass(frozen=True)
class Result:
    """What a test, or the set-up of a class, came to, and why."""

    test: str
    status: str
    reason: str = ''


@dataclasses.dataclass(frozen=True)
class Known:
    """Why tests whose name matches ``tests`` end as they do.

    What they say must match ``said``, so that it explains nothing else.
    """

    status: str
    tests: str
    reason: str
    said: str = ''


def known(path: pathlib.Path) -> list[Known]:
    """Read the list of what is explained.

    Its tables are ``left_out`` (tests that are not run), ``skipped`` and
    ``failed``.
    """
    content = tomllib.loads(path.read_text())
    return [
        Known(status, entry['tests'], entry['reason'], entry.get('said', ''))
        for status, entries in content.items()
        for entry in entries
    ]


def explanation(
    test: str,
    status: str,
    entries: collections.abc.Iterable[Known],
    said: str = '',
) -> str | None:
    """Return why a test has a status that is not passed; None: no idea."""
    for entry in entries:
        if (
            entry.status == status
            and re.search(entry.tests, test)
            and re.search(entry.said, said)
        ):
            return entry.reason
    return None


def read(stream: typing.BinaryIO) -> list[Result]:
    """Read a subunit stream."""
    found: list[Result] = []

    def add(test: dict[str, typing.Any]) -> None:
        status = test['status']
        if status in ('exists', 'inprogress', 'unknown') and test['id'] == '':
            return
        details = test['details']
        texts = {name: detail.as_text() for name, detail in details.items()}
        found.append(
            Result(
                TAGS.sub('', test['id']),
                STATUSES.get(status, FAILED),
                (texts.get('reason') or texts.get('traceback', '')).strip(),
            )
        )

    result = testtools.StreamToDict(add)
    result.startTestRun()
    subunit.ByteStreamToStreamResult(stream, non_subunit_name='stdout').run(
        result
    )
    result.stopTestRun()
    return [one for one in found if one.test != 'stdout']


def of_each(
    tests: collections.abc.Iterable[str],
    results: collections.abc.Iterable[Result],
) -> list[Result]:
    """Return one result for each of the tests that were to run.

    A test of a class whose set-up failed or was skipped has that result, one
    without any has failed. What failed besides, such as the clean-up of a
    class, is added.
    """
    own: dict[str, Result] = {}
    classes: dict[str, Result] = {}
    for result in results:
        matched = SET_UP.fullmatch(result.test)
        if matched:
            classes[matched['name']] = result
        else:
            own[result.test] = result
    found = []
    used = set()
    for test in tests:
        name = test.rpartition('.')[0]
        if test in own:
            found.append(own.pop(test))
        elif name in classes:
            used.add(name)
            found.append(dataclasses.replace(classes[name], test=test))
        else:
            found.append(Result(test, FAILED, 'it was not run'))
    rest = [one for name, one in classes.items() if name not in used]
    found += [one for one in [*own.values(), *rest] if one.status == FAILED]
    return found


def counts(results: collections.abc.Iterable[Result]) -> dict[str, int]:
    """Return how many there are of each status."""
    counted = collections.Counter(result.status for result in results)
    return {status: counted[status] for status in (PASSED, FAILED, SKIPPED)}
