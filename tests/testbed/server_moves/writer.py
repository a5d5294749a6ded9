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

"""Writes to a vdisk and verifies what it reads, as a guest does.

python writer.py PATH STATE, until its standard input ends

It prints a line for each round. What it has written is in the file STATE then,
from which the next writer goes on. It ends with an error if a read differs
from what was written last, or if a request fails.
"""

import json
import mmap
import os
import pathlib
import select
import sys

SLOTS = 64
SIZE = 64 << 10


def content(slot: int, count: int) -> bytes:
    """Return the content of a slot of the vdisk after some rounds."""
    if not count:
        return bytes(SIZE)
    text = f'slot {slot}, written {count} times; '.encode()
    return (text * (SIZE // len(text) + 1))[:SIZE]


def run(path: str, state: pathlib.Path) -> int:
    counts = json.loads(state.read_text()) if state.exists() else [0] * SLOTS
    descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    # the slots are all over the device
    step = os.lseek(descriptor, 0, os.SEEK_END) // SLOTS
    step -= step % mmap.PAGESIZE
    # direct I/O needs memory aligned to pages
    page = mmap.mmap(-1, SIZE)
    rounds = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        slot = rounds % SLOTS
        os.preadv(descriptor, [page], slot * step)
        if page[:] != content(slot, counts[slot]):
            print(f'wrong: slot {slot}: {page[:80]!r}', flush=True)
            return 1
        counts[slot] += 1
        page[:] = content(slot, counts[slot])
        os.pwritev(descriptor, [page], slot * step)
        rounds += 1
        print(rounds, flush=True)
    state.write_text(json.dumps(counts))
    return 0


if __name__ == '__main__':
    sys.exit(run(sys.argv[1], pathlib.Path(sys.argv[2])))
