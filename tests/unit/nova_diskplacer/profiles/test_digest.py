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

import dataclasses

from oslotest import base

from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions


class DigestTest(base.BaseTestCase):
    def test_every_setting_counts(self):
        profiles = dict(catalogue.load())
        digest = catalogue.digest(profiles)
        self.assertEqual(digest, catalogue.digest(catalogue.load()))
        reverse = dict(reversed(profiles.items()))
        self.assertEqual(digest, catalogue.digest(reverse))
        name = next(iter(profiles))
        for changes in (
            {'weight': 1},
            {'specs': {'diskplacer:vdisks': '23'}},
            {'queue': {'hdd': definitions.Queue(nr_requests=5)}},
        ):
            changed = dataclasses.replace(profiles[name], **changes)
            self.assertNotEqual(
                digest, catalogue.digest({**profiles, name: changed})
            )
        del profiles[name]
        self.assertNotEqual(digest, catalogue.digest(profiles))

    def test_software(self):
        software = catalogue.software([])
        digest = catalogue.digest(catalogue.load())
        self.assertEqual(digest, software['profiles'])
        self.assertTrue(software['release'])
