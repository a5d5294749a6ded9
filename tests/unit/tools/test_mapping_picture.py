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


import testtools

from tools import mapping_picture as picture


def disks_of(on_disks, kind):
    """Return the disks that have parts of a server."""
    return [
        number
        for number, content in enumerate(on_disks)
        if kind in [its for _, its in content]
    ]


class PictureTest(testtools.TestCase):
    def test_the_committed_pictures_are_those_of_the_code(self):
        self.assertEqual(picture.MAPPINGS.read_text(), picture.draw_mappings())
        self.assertEqual(picture.ELASTIC.read_text(), picture.draw_elastic())

    def test_mappings(self):
        on = {one.mapping: picture.boxes(one) for one in picture.PANELS}
        for mapping, number in (
            ('round_robin', 4),
            ('consolidated', 1),
            ('striped', 4),
        ):
            for kind in ('a', 'b'):
                self.assertEqual(number, len(disks_of(on[mapping], kind)))
        # on the disk that is used already
        self.assertEqual(
            disks_of(on['consolidated'], 'a'),
            disks_of(on['consolidated'], 'b'),
        )

    def test_each_leg_is_on_one_disk(self):
        for width, on_disks in picture.widths().items():
            self.assertEqual(width, len(disks_of(on_disks, 'a')))
            legs = [text for disk in on_disks for text, _ in disk]
            self.assertEqual(picture.PARTS, len(set(legs)))
            self.assertEqual(picture.PARTS, len(legs))
