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

"""The end of each command: its exit status, and one line for an error."""

import collections.abc
import functools
import sys

from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.host import streams

# Characters of a message: it may quote what was read.
_LONGEST = 4000

Main = collections.abc.Callable[..., int]

# What files, terminals and numbers of the operator's may raise in any library.
_OF_INPUT = (
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    UnicodeError,
)


def command(
    prog: str, error_status: int = exit_status.ERROR
) -> collections.abc.Callable[[Main], Main]:
    """Return a decorator for the main function of a command.

    It writes an error as one line to standard error, and returns the exit
    status. A reader of the output that has gone is no error: ``| head``.

    :param prog: name of the command, for messages.
    :param error_status: its exit status for errors.
    """

    def decorate(main: Main) -> Main:
        @functools.wraps(main)
        def run(*arguments: object) -> int:
            streams.prepare()
            try:
                try:
                    status = main(*arguments)
                finally:
                    # argparse raises SystemExit after --help
                    sys.stdout.flush()
            except KeyboardInterrupt:
                return exit_status.INTERRUPTED
            except BrokenPipeError:
                streams.discard(sys.stdout)
                return exit_status.CLOSED
            except exception.DiskPlacerError as error:
                print(f'{prog}: {error}'[:_LONGEST], file=sys.stderr)
                return error_status
            except _OF_INPUT as error:
                # the output may be what cannot be written
                streams.discard(sys.stdout)
                print(f'{prog}: {_describe(error)}', file=sys.stderr)
                return error_status
            return status

        return run

    return decorate


def _describe(error: BaseException) -> str:
    text = ' '.join(str(error).split())
    return f'{type(error).__name__}: {text}' if text else type(error).__name__
