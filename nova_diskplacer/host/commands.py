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

"""Runs commands and turns their failures into errors that name the command."""

import collections.abc
import time

from oslo_concurrency import processutils

from nova_diskplacer import exception

# Seconds for which udev may keep open a device that a command needs alone.
_UDEV_GRACE = 5


def run(
    *command: str,
    environment: collections.abc.Mapping[str, str] | None = None,
) -> str:
    """Run a command and return its output.

    :param environment: the variables of the command, by default those of this
        process.
    :raises DiskError: the command cannot be run or fails; the message
        includes its error output.
    """
    variables = None if environment is None else dict(environment)
    try:
        output: str = processutils.execute(*command, env_variables=variables)[
            0
        ]
    except OSError as error:
        raise exception.DiskError(f'{command[0]}: {error}') from error
    except processutils.ProcessExecutionError as error:
        message = ' '.join((error.stderr or error.stdout).split())
        raise exception.DiskError(f'{" ".join(command)}: {message}') from error
    return str(output)


def run_retry(*command: str) -> str:
    """Run a command on a device that another process may hold for a moment.

    udev, LVM and the agent open any disk now and then.

    :raises DiskError: as :func:`run`, after some seconds of trying.
    """
    deadline = time.monotonic() + _UDEV_GRACE
    while True:
        try:
            return run(*command)
        except exception.DiskError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
