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

"""Advice on the memory of a server, by its data and not by its disks.

P1 §III, Fig. 3: the size of the data by the memory decides the running time of
a key-value store, and the number of vCPUs does not. A disk may be large and
hold little that is read.
"""

import dataclasses

GIB = 1 << 30

# That of Linux on x86 and, by default, on Arm.
_PAGE = 4096

# No paper gives a limit. Programs that start and files that are read for the
# first time after long fault once in a while.
_SOME_PER_SECOND = 1.0

_P1_SMALL = (
    'P1 §III-B: with 2 GB of data and 2 GB of memory an operation took 1 ms '
    'on average, and most of the data was in memory (§III)'
)
_P1_LARGE = (
    'P1 §III-A, Fig. 4(a): with 8 GB of data and 2 GB of memory half of the '
    'reads took more than 1 ms, most of these 10 to 30 ms, which is the disk'
)


@dataclasses.dataclass(frozen=True)
class Advice:
    """Advice on memory; ``text`` gives the reason and its source.

    The right size is between ``least_bytes`` and ``most_bytes``; each is None
    if it is not known.
    """

    enough: bool
    least_bytes: int | None
    most_bytes: int | None
    text: str


def by_data(memory_bytes: int, data_bytes: int) -> Advice:
    """Advise by the size of the data that is read again and again."""
    parts = data_bytes / memory_bytes
    if parts <= 1:
        return Advice(
            True,
            None,
            None,
            f'The data is {parts:.2f} of the memory. {_P1_SMALL}. What the '
            'guest uses besides has to fit too.',
        )
    return Advice(
        False,
        data_bytes,
        None,
        f'The data is {parts:.2f} times the memory: reads of what does not '
        f'fit wait for the disk. {_P1_LARGE}. Memory of '
        f'{data_bytes / GIB:.1f} GiB holds the data, without what the guest '
        'uses besides; less does if a part of the data is hardly read.',
    )


def by_refaults(memory_bytes: int, pages: int, seconds: float) -> Advice:
    """Advise by the pages of files that were dropped and read again.

    :param pages: growth of ``workingset_refault_file`` (kernels before 5.9:
        ``workingset_refault``) in the guest's ``/proc/vmstat``.
    """
    rate = pages / seconds
    if rate < _SOME_PER_SECOND:
        return Advice(
            True,
            None,
            memory_bytes,
            f'The guest read {rate:.2f} pages a second again that it had '
            'dropped: what it reads again and again is in memory.',
        )
    again = pages * _PAGE
    return Advice(
        False,
        memory_bytes,
        memory_bytes + again,
        f'The guest read {rate:.1f} pages a second again that it had dropped, '
        f'{again / GIB:.2f} GiB in {seconds:g} s: its memory does not hold '
        'what it reads again and again. As much more would have held all of '
        'it; less does if the same pages were dropped several times. '
        f'{_P1_LARGE}.',
    )
