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

"""Tests of the check of the volume quotas."""

import unittest

from nova_diskplacer.api import quota
from nova_diskplacer.api.decision import Volume


def limit(limit, in_use=0, reserved=0):
    return {'limit': limit, 'in_use': in_use, 'reserved': reserved}


class QuotaTest(unittest.TestCase):
    volumes = (
        Volume(20, bootable=True, is_new=True),
        Volume(100, 'vdisk', is_new=True),
        Volume(100, 'vdisk', is_new=True),
        Volume(999, 'vdisk'),
    )

    def _check(self, servers=1, default_type=None, **quotas):
        quota.check(quotas, self.volumes, servers, default_type)

    def _exceeded(self, message, *args, **kwargs):
        with self.assertRaisesRegex(quota.Exceeded, message):
            self._check(*args, **kwargs)

    def test_volumes(self):
        self._check(volumes=limit(10, 6, 1))
        self._exceeded(
            'quota volumes .* 3 requested, 8 in use, 10 allowed',
            volumes=limit(10, 7, 1),
        )
        self._exceeded('6 requested', 2, volumes=limit(5))

    def test_gigabytes(self):
        self._check(gigabytes=limit(220))
        self._exceeded('220 requested', gigabytes=limit(219))
        self._exceeded('440 requested', 2, gigabytes=limit(439))

    def test_of_the_type(self):
        self._exceeded('volumes_vdisk', volumes_vdisk=limit(1))
        self._exceeded('gigabytes_vdisk', gigabytes_vdisk=limit(199))
        self._check(volumes_vdisk=limit(2), gigabytes_vdisk=limit(200))
        self._check(volumes_ceph=limit(0))
        self._exceeded(
            'volumes_ceph', default_type='ceph', volumes_ceph=limit(0)
        )

    def test_of_a_volume(self):
        self._check(3, per_volume_gigabytes=limit(100))
        self._exceeded(
            '100 requested, 0 in use, 99 allowed',
            per_volume_gigabytes=limit(99),
        )

    def test_no_limit(self):
        self._check(volumes=limit(-1, 100), gigabytes=limit(-1, 100))
        self._check()
