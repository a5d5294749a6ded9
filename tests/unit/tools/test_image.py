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


import pathlib

import fixtures
import testtools

from tools.testbed import image


class BuildTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.cache = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.patch('CACHE', self.cache)
        self.patch('_make', lambda path, packages: path.mkdir())

    def patch(self, name, value):
        self.useFixture(fixtures.MockPatchObject(image, name, value))

    def kept(self):
        return {path for path in self.cache.iterdir() if path.is_dir()}

    def test_that_of_a_cloud_stays_beside_the_other(self):
        plain, cloud = image.build(), image.build(whole_cloud=True)
        self.assertEqual({plain, cloud}, self.kept())
        self.patch('PACKAGES', (*image.PACKAGES, 'more'))
        newer = image.build()
        self.assertEqual({newer, cloud}, self.kept())
        newest = image.build(whole_cloud=True)
        self.assertEqual({newer, newest}, self.kept())
        self.assertEqual(newest, image.build(whole_cloud=True))
