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

"""Counts the migrations of a server's vCPU threads, from ``/proc``.

libvirt's perf events are none to rely on for that: an event that is enabled
while the server runs counts QEMU's main thread only, and those that it starts
later.
"""

import contextlib
import glob
import os
import re

from diskplacer_measure.sizing import errors

# QEMU's names of the threads, with KVM and without.
_VCPU = re.compile(r'(?:CPU \d+|ALL CPUs)/\w+')
_MIGRATIONS = re.compile(r'^se\.nr_migrations\s*:\s*(\d+)$', re.MULTILINE)


def migrations(server: str, proc: str = '/proc') -> int:
    """Return the number of moves of the vCPUs to another CPU.

    The counts begin when the threads do.

    :param server: UUID.
    :raises SizingError: there is no such process, or the kernel does not say.
    """
    counts = []
    for task in glob.glob(os.path.join(_process(server, proc), 'task/*')):
        # threads come and go
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if _VCPU.fullmatch(_read(task, 'comm').strip()):
                match = _MIGRATIONS.search(_read(task, 'sched'))
                if match is None:
                    raise errors.SizingError(
                        f'{task}/sched has no se.nr_migrations'
                    )
                counts.append(int(match[1]))
    if not counts:
        raise errors.SizingError(
            f'no vCPU threads of server {server} with a file sched in {proc}: '
            'the kernel may be built without CONFIG_SCHED_DEBUG'
        )
    return sum(counts)


def _process(server: str, proc: str) -> str:
    """Return the directory of the server's QEMU."""
    for path in glob.glob(os.path.join(proc, '[0-9]*')):
        with contextlib.suppress(OSError):
            arguments = _read(path, 'cmdline').split('\0')
            if ('-uuid', server) in zip(
                arguments, arguments[1:], strict=False
            ):
                return path
    raise errors.SizingError(
        f'no process in {proc} has the argument -uuid {server}'
    )


def _read(directory: str, name: str) -> str:
    path = os.path.join(directory, name)
    with open(path, encoding='utf-8', errors='replace') as stream:
        return stream.read()
