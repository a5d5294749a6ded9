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

"""Sets and reads the standby of ATA disks with hdparm."""

import re

from nova_diskplacer import exception
from nova_diskplacer.host import commands

#: Longest standby timeout of an ATA disk in seconds, 5.5 hours.
MAX_SECONDS = 19800

# A disk that sleeps wakes by a reset only, which any request causes.
_ASLEEP = ('standby', 'sleeping')
_STATE = re.compile(r'drive state is:\s+(\S.*)')

# Codes of timeouts that are multiples of neither unit, in seconds.
_ODD_CODES = {21 * 60: 252, 21 * 60 + 15: 255}


def standby_code(seconds: int) -> int:
    """Return the code of the shortest timeout of at least some seconds.

    Timeouts are multiples of 5 s up to 20 min (codes 1 to 240), 21 min (252),
    21 min 15 s (255), and multiples of 30 min up to 5.5 h (241 to 251): the
    table of the option -S in hdparm(8).

    :param seconds: 1 to ``MAX_SECONDS``.
    :raises ValueError: a disk has no such timeout.
    """
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(
            f'a standby timeout of {seconds} s is not 1 to {MAX_SECONDS} s'
        )
    if seconds <= 240 * 5:
        return -(-seconds // 5)
    for longest, code in _ODD_CODES.items():
        if seconds <= longest:
            return code
    return 240 - (-seconds // 1800)


def set_standby(device: str, code: int) -> None:
    """Set the standby timeout of a disk; a disk in standby spins up.

    :param device: name of the device.
    :param code: of ``standby_code``; 0: none.
    :raises DiskError: the disk refuses, or hdparm cannot be run.
    """
    commands.run('hdparm', '-q', '-S', str(code), f'/dev/{device}')


def in_standby(device: str) -> bool:
    """Tell whether a disk is in standby; it neither spins up nor down.

    :param device: name of the device.
    :raises DiskError: the disk does not tell, or hdparm cannot be run.
    """
    text = commands.run('hdparm', '-C', f'/dev/{device}')
    state = _STATE.search(text)
    if state is None or state[1] == 'unknown':
        raise exception.DiskError(
            f'hdparm -C /dev/{device}: the state is unknown'
        )
    return state[1] in _ASLEEP
