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

"""Commands that ask at a terminal, and get answers."""

import os
import subprocess


def run(argv, answers=(), **options):
    """Run a command; each time that it asks, type the next answer.

    It asks if what it has printed ends with a space or a colon: a prompt.

    :param options: of subprocess.Popen.
    :returns: (exit status, what it printed).
    """
    ours, its = os.openpty()
    remaining = list(answers)
    printed = b''
    with subprocess.Popen(
        argv,
        stdin=its,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    ) as process:
        os.close(its)
        while part := os.read(process.stdout.fileno(), 2**16):
            printed += part
            if remaining and printed.endswith((b' ', b':')):
                os.write(ours, f'{remaining.pop(0)}\n'.encode())
    os.close(ours)
    return process.returncode, printed.decode(errors='replace')
