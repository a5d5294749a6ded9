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

import bz2
import gzip
import lzma

import ddt
import testtools

from tools.minicloud import kernel

PVH = b'\x04\0\0\0\x08\0\0\0\x12\0\0\0Xen\0' + bytes(8)
ELF = b'\x7fELF' + bytes(500)


@ddt.ddt
class DecompressTest(testtools.TestCase):
    @ddt.data(lzma, gzip, bz2)
    def test_what_is_in_it(self, format_):
        packed = format_.compress(ELF + PVH)
        # what unpacks it has the beginning of all formats, too
        code = b'MZ BZh \xfd7zXZ\0 \x1f\x8b\x08 code'
        self.assertEqual(
            ELF + PVH, kernel.decompress(code + packed + b'after')
        )

    @ddt.data(ELF, b'no kernel' + PVH)
    def test_nothing_that_boots(self, content):
        image = b'MZ' + lzma.compress(content)
        self.assertEqual(image, kernel.decompress(image))

    @ddt.data(b'', b'MZ \x28\xb5\x2f\xfd of another format')
    def test_another_format(self, image):
        self.assertEqual(image, kernel.decompress(image))
