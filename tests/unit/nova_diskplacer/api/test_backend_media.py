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

"""Tests of the media of flavors and of the backends of their volumes."""

import unittest

import hypothesis
from hypothesis import strategies as st

from nova_diskplacer.api import backend_media
from nova_diskplacer.api.backend_media import Pool

MEDIA = st.sampled_from(['hdd', 'ssd', 'any'])
POOLS = st.lists(
    st.builds(
        Pool, st.sampled_from('xyz'), st.sampled_from(['a', 'b']), MEDIA
    ),
    max_size=6,
)
SSD, HDD = Pool('x', 'fast', 'ssd'), Pool('x', 'slow', 'hdd')


class ProblemTest(unittest.TestCase):
    def _problem(self, media, *pools):
        return backend_media.problem(media, 'gold', 'fast', pools)

    def test_two_media_on_a_host(self):
        text = self._problem('any', SSD, HDD)
        self.assertIn('media is any, so that hdd disks may be chosen', text)
        self.assertIn('volume type gold has ssd disks only', text)
        self.assertEqual('', self._problem('ssd', SSD, HDD))
        self.assertIn('media is hdd', self._problem('hdd', SSD, HDD))

    def test_hosts_of_one_medium(self):
        self.assertEqual('', self._problem('any', SSD))
        # no host has such disks: nova-scheduler says so
        self.assertEqual('', self._problem('hdd', SSD))
        other = Pool('y', 'slow', 'hdd')
        self.assertIn('hdd disks may be', self._problem('any', SSD, other))
        same = Pool('y', 'fast', 'hdd')
        self.assertEqual('', self._problem('any', SSD, same))

    def test_backend_of_any_medium(self):
        every = Pool('x', 'fast', 'any')
        for media in ('any', 'hdd', 'ssd'):
            self.assertEqual('', self._problem(media, every, HDD))

    def test_type_without_such_a_backend(self):
        self.assertEqual('', self._problem('any', HDD))
        self.assertEqual('', self._problem('any'))
        self.assertEqual('', backend_media.problem('any', 't', '', [HDD]))

    @hypothesis.given(MEDIA, POOLS)
    def test_the_driver_can_use_what_may_be_claimed(self, media, pools):
        """Unless there is a problem, on each disk that may be claimed."""
        problem = backend_media.problem(media, 'type', 'a', pools)
        if not any(pool.backend == 'a' for pool in pools):
            self.assertEqual('', problem)
            return
        bad = [
            medium
            for pool in pools
            for medium in ('hdd', 'ssd')
            if pool.media in (medium, 'any')
            and media in (medium, 'any')
            and not any(
                other.host == pool.host
                and other.backend == 'a'
                and other.media in (medium, 'any')
                for other in pools
            )
        ]
        self.assertEqual(bool(bad), bool(problem))
