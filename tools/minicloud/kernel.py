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

"""The kernel of emulated guests, which take long to decompress it.

QEMU boots what is in a bzImage at once if that has an entry for PVH: two
seconds of processor time instead of five, until a guest runs its init.
"""

import bz2
import collections.abc
import contextlib
import lzma
import zlib

# What begins the kernel in a bzImage, compressed, and what decompresses it,
# whatever follows.
_FORMATS: dict[bytes, collections.abc.Callable[[bytes], bytes]] = {
    b'\xfd7zXZ\0': lambda data: lzma.LZMADecompressor().decompress(data),
    b'\x1f\x8b\x08': lambda data: zlib.decompressobj(31).decompress(data),
    b'BZh': lambda data: bz2.BZ2Decompressor().decompress(data),
}
_ELF = b'\x7fELF'
# XEN_ELFNOTE_PHYS32_ENTRY, whose description is an address of 8 bytes
_PVH = b'\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0'


def decompress(image: bytes) -> bytes:
    """Return the kernel in a bzImage, or that if QEMU boots nothing else."""
    for begin, decompressed in _FORMATS.items():
        place = image.find(begin)
        while place >= 0:
            with contextlib.suppress(lzma.LZMAError, zlib.error, OSError):
                kernel = decompressed(image[place:])
                if kernel.startswith(_ELF) and _PVH in kernel:
                    return kernel
            place = image.find(begin, place + 1)
    return image
