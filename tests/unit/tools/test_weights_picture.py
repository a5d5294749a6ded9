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

from tools import weights_picture as picture

SVG = '{http://www.w3.org/2000/svg}'


class PictureTest(testtools.TestCase):
    def lines(self, figures):
        root = xml.etree.ElementTree.fromstring(picture.draw(figures))
        return [
            [
                tuple(map(float, point.split(',')))
                for point in line.get('points').split()
            ]
            for line in root.findall(f'{SVG}polyline')
        ]

    def test_more_is_further_up_and_later_to_the_right(self):
        lines = self.lines(
            {
                'bfq_with_task2_mbps_6': 5.0,
                'bfq_with_task2_mbps_7': 9.0,
                'bfq_with_task2_mbps_8': None,
                'bfq_with_task2_mbps_99': 9.0,
            }
        )
        ((x, y), (right, up)) = lines[len(picture.TASKS) + 1]
        self.assertLess(x, right)
        self.assertGreater(y, up)
        self.assertEqual(2, sum(map(len, lines)))

    def test_the_picture_is_that_of_the_result(self):
        figures = json.loads(picture.RESULT.read_text())['figures']
        self.assertEqual(picture.draw(figures), picture.PICTURE.read_text())
        self.assertTrue(all(self.lines(figures)))
