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

from tools import hadoop_picture as picture

SVG = '{http://www.w3.org/2000/svg}'


class PictureTest(testtools.TestCase):
    def test_half_of_the_time_is_half_as_high(self):
        figures = {
            'round_robin_1_sort_s': 200.0,
            'round_robin_2_sort_s': 100.0,
            'round_robin_2_sort_s_low': 90.0,
            'round_robin_2_sort_s_high': 110.0,
        }
        root = xml.etree.ElementTree.fromstring(picture.draw(figures))
        _, one, two, *others = root.findall(f'{SVG}rect')
        self.assertAlmostEqual(
            float(one.get('height')), 2 * float(two.get('height')), delta=0.2
        )
        self.assertEqual({0.0}, {float(r.get('height')) for r in others[:4]})

    def test_the_picture_is_that_of_the_result(self):
        figures = json.loads(picture.RESULT.read_text())['figures']
        self.assertEqual(picture.draw(figures), picture.PICTURE.read_text())
