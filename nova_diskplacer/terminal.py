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

"""Text of others on a terminal, and the end of a terminal."""

import signal
import sys
import types
import typing

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


def exit_on_signals() -> None:
    """Raise SystemExit on the signals that end this process.

    So cleanups run, as they do after Ctrl-C. A process that ignores SIGHUP, as
    of nohup, goes on ignoring it.
    """
    for ending in _ENDINGS:
        if signal.getsignal(ending) != signal.SIG_IGN:
            signal.signal(ending, _exit)


def _exit(number: int, frame: types.FrameType | None) -> typing.NoReturn:
    # a terminal that is closed may say so twice, and cleanups take a while
    for ending in _ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    sys.exit(128 + number)


def printable(text: str) -> str:
    """Return the text with ``?`` for what a terminal does not show.

    That is control characters, with which a name could write anything anywhere
    on a terminal, and characters that change the direction of others.
    """
    return ''.join(char if char.isprintable() else '?' for char in text)
