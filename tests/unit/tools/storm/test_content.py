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


"""What was written, compared with what is there."""

import hypothesis
import testtools
from hypothesis import strategies

from tools.storm import content
from tools.storm.content import Content


class Disk:
    """The blocks of a volume in memory."""

    def __init__(self):
        self.blocks = {}

    def read(self, block):
        return self.blocks.get(block, bytes(content.BLOCK))

    def write(self, block, digest):
        self.blocks[block] = content.block_bytes(digest)


class ContentTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.content = Content(1)
        self.disk = Disk()

    def write(self, block, volume='volume'):
        digest = self.content.next_digest(volume, block)
        self.content.wrote(block, digest)
        self.disk.write(block, digest)

    def wrong(self):
        return [one.block for one in self.content.wrong(self.disk.read)]

    def test_new_volume_is_zeros(self):
        self.assertEqual([], self.wrong())
        hole = content.HOLES[1]
        self.disk.write(hole, b'x' * content.DIGEST)
        self.assertEqual([hole], self.wrong())

    @hypothesis.given(
        strategies.lists(strategies.sampled_from(content.PLACES))
    )
    @hypothesis.settings(max_examples=20, deadline=None)
    def test_last_write_counts(self, blocks):
        self.content, self.disk = Content(1), Disk()
        for block in blocks:
            self.write(block)
        self.assertEqual([], self.wrong())

    def test_old_version_is_wrong(self):
        self.write(1)
        old = self.disk.read(1)
        self.write(1)
        self.disk.blocks[1] = old
        self.assertEqual([1], self.wrong())

    def test_half_of_a_block_is_wrong(self):
        self.write(0)
        half = content.BLOCK // 2
        self.disk.blocks[0] = self.disk.read(0)[:half] + bytes(half)
        (wrong,) = self.content.wrong(self.disk.read)
        self.assertIn('2 digests', wrong.found)

    def test_short_file_is_wrong(self):
        self.disk.blocks[content.PLACES[-1]] = b''
        (wrong,) = self.content.wrong(self.disk.read)
        self.assertEqual('0 bytes', wrong.found)

    def test_block_of_a_failed_write_may_be_anything(self):
        self.write(1)
        self.content.may_have_written(1)
        self.disk.write(1, b'?' * content.DIGEST)
        self.assertEqual([], self.wrong())
        self.write(1)
        self.disk.write(1, b'?' * content.DIGEST)
        self.assertEqual([1], self.wrong())

    def test_copy_keeps_what_it_was(self):
        self.write(1)
        kept = self.content.copy()
        before = dict(self.disk.blocks)
        self.write(1)
        self.assertEqual(
            [], kept.wrong(lambda block: before.get(block, bytes(2**16)))
        )
        self.assertEqual(1, len(kept.wrong(self.disk.read)))

    def test_growth_is_zeros(self):
        self.write(1)
        self.content.size_gb = 2
        self.assertEqual([], self.wrong())
        block = content.BLOCKS_PER_GIB + content.HOLES[0]
        self.disk.write(block, b'x' * content.DIGEST)
        self.assertEqual([block], self.wrong())

    def test_volumes_have_bytes_of_their_own(self):
        self.assertNotEqual(
            Content(1).next_digest('a', 1), Content(1).next_digest('b', 1)
        )
