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


"""What the clients have written to a volume, and what they must find there.

A client writes blocks. Each is a digest of the volume, the place and a
version, repeated, so that a wrong block tells whose it is. A block whose
write has failed may be old or new; one of a disk that failed meanwhile may be
anything.
"""

import collections.abc
import dataclasses
import hashlib
import typing

BLOCK = 64 * 2**10
GIB = 2**30
BLOCKS_PER_GIB = GIB // BLOCK
DIGEST = hashlib.sha256().digest_size

ZEROS = bytes(DIGEST)
# Where blocks of each GiB are written, and where some are left as they are.
PLACES = (0, 1, 4095, 8192, 12000, BLOCKS_PER_GIB - 1)
HOLES = (2, 2048, 9000, BLOCKS_PER_GIB - 2)


class Wrong(typing.NamedTuple):
    """A block with other bytes than those that were written."""

    block: int
    found: str
    wanted: str


def block_bytes(digest: bytes) -> bytes:
    """Return the bytes of a block."""
    return digest * (BLOCK // DIGEST)


@dataclasses.dataclass
class Content:
    """The content of a volume: for each block the digests that it may have.

    A block that is not in ``blocks`` is zeros; one with no digest may have
    any bytes.
    """

    size_gb: int
    blocks: dict[int, frozenset[bytes]] = dataclasses.field(
        default_factory=dict
    )
    version: int = 0

    def copy(self) -> 'Content':
        return Content(self.size_gb, dict(self.blocks), self.version)

    def next_digest(self, volume: str, block: int) -> bytes:
        """Return the digest of a new version of a block."""
        self.version += 1
        text = f'{volume}/{block}/{self.version}'
        return hashlib.sha256(text.encode()).digest()

    def wrote(self, block: int, digest: bytes) -> None:
        self.blocks[block] = frozenset([digest])

    def may_have_written(self, block: int) -> None:
        """Note that a write of a block has failed, perhaps half way."""
        self.blocks[block] = frozenset()

    def places(self) -> list[int]:
        """Return the blocks that clients write."""
        return [
            gib * BLOCKS_PER_GIB + place
            for gib in range(self.size_gb)
            for place in PLACES
        ]

    def checked(self) -> list[int]:
        """Return the blocks that are compared: those, and some holes."""
        holes = [
            gib * BLOCKS_PER_GIB + hole
            for gib in range(self.size_gb)
            for hole in HOLES
        ]
        return sorted([*self.places(), *holes])

    def wrong(
        self, read: collections.abc.Callable[[int], bytes]
    ) -> list[Wrong]:
        """Return the blocks that are wrong.

        :param read: returns the bytes of a block.
        """
        found = []
        for block in self.checked():
            allowed = self.blocks.get(block, frozenset([ZEROS]))
            if not allowed:
                continue
            data = read(block)
            if data not in [block_bytes(digest) for digest in allowed]:
                found.append(
                    Wrong(
                        block,
                        describe(data),
                        ' or '.join(sorted(one.hex()[:16] for one in allowed)),
                    )
                )
        return found


def describe(data: bytes) -> str:
    """Return what a block has, in words."""
    if len(data) != BLOCK:
        return f'{len(data)} bytes'
    digests = {
        data[start : start + DIGEST] for start in range(0, BLOCK, DIGEST)
    }
    if len(digests) == 1:
        return digests.pop().hex()[:16]
    return f'{len(digests)} digests: ' + ', '.join(
        sorted(one.hex()[:16] for one in digests)[:4]
    )
