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

"""The standard streams of a command."""

import os
import sys


def prepare() -> None:
    """Replace what a terminal cannot show, and streams that are closed.

    A character that the terminal's encoding lacks becomes a question mark. A
    closed stream leads to ``/dev/null``: otherwise the next file that is
    opened would get its number, and the output of the command.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    for name, number, mode in (
        ('stdin', 0, 'r'),
        ('stdout', 1, 'w'),
        ('stderr', 2, 'w'),
    ):
        if getattr(sys, name) is None:
            stream = open(number, mode, encoding='utf-8', closefd=False)
            setattr(sys, name, stream)
    for stream in (sys.stdout, sys.stderr):
        replace_characters(stream)


def replace_characters(stream: object) -> None:
    """Write a question mark for each character that the encoding lacks."""
    # the stream of a test may be another object
    if hasattr(stream, 'reconfigure'):
        stream.reconfigure(errors='replace')


def discard(stream: object) -> None:
    """Send what is left of the output to nowhere: nobody reads it."""
    if hasattr(stream, 'fileno'):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
