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


import json
import xml.etree.ElementTree

import testtools

from tools import placement_picture as picture

SVG = '{http://www.w3.org/2000/svg}'


class PictureTest(testtools.TestCase):
    def lines(self, figures):
        root = xml.etree.ElementTree.fromstring(picture.draw(figures))
        return root.findall(f'{SVG}polyline')

    def test_higher_is_further_up(self):
        figures = {
            'load_40_default_gib': 0.7,
            'load_60_default_gib': 0.9,
            'load_70_default_gib': None,
        }
        points = (
            self.lines(figures)[len(picture.LINES) - 1].get('points').split()
        )
        (x, y), (right, up) = (map(float, one.split(',')) for one in points)
        self.assertLess(x, right)
        self.assertGreater(y, up)

    def test_the_picture_is_that_of_the_result(self):
        figures = json.loads(picture.RESULT.read_text())['figures']
        self.assertEqual(picture.draw(figures), picture.PICTURE.read_text())
        for line in self.lines(figures):
            self.assertEqual(
                len(picture._LOADS), len(line.get('points').split())
            )
