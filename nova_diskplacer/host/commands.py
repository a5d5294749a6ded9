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

"""Runs commands, and turns their failures into errors that name the command.

Commands print numbers and messages as in the locale C.
"""

import collections.abc
import contextlib
import os
import shutil

from oslo_concurrency import processutils

from nova_diskplacer import exception

#: Attempts of a command on a device that udev, LVM or the agent may have open
#: for a moment.
DEVICE_ATTEMPTS = 5

_LOCALE = {'LC_ALL': 'C'}

# Characters of a report that an error quotes.
_QUOTED = 80


def run(
    *command: str,
    environment: collections.abc.Mapping[str, str] | None = None,
    attempts: int = 1,
) -> str:
    """Run a command and return its output.

    :param environment: the variables of the command, by default those of this
        process. LC_ALL is C.
    :param attempts: number of attempts, a second or two apart.
    :raises DiskError: the command cannot be run or fails; the message
        includes its error output.
    """
    variables = os.environ if environment is None else environment
    try:
        output, _ = processutils.execute(
            *command,
            env_variables={**variables, **_LOCALE},
            attempts=attempts,
        )
    except OSError as error:
        raise exception.DiskError(f'{command[0]}: {error}') from error
    except processutils.ProcessExecutionError as error:
        message = ' '.join((error.stderr or error.stdout).split())
        raise exception.DiskError(f'{" ".join(command)}: {message}') from error
    return str(output)


def require(*programs: str) -> None:
    """Check that programs are installed.

    :raises DiskError: one is not.
    """
    for name in programs:
        if shutil.which(name) is None:
            raise exception.DiskError(f'{name} is not installed')


@contextlib.contextmanager
def report_errors(command: str, report: str) -> collections.abc.Iterator[None]:
    """Raise what fails while a command's report is read as a DiskError.

    The message has the first characters of the report.
    """
    try:
        yield
    except (
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise exception.DiskError(
            f'the report of {command} cannot be read, it begins with '
            f'{report[:_QUOTED]!r} ({error!r})'
        ) from error
