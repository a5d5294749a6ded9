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

from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer.cmd import upgrade_checks as checks
from nova_diskplacer.cmd import upgrade_quotas
from tests.unit.nova_diskplacer.cmd import test_upgrade_checks

FLAVOR = test_upgrade_checks.FLAVOR


class QuotasTest(test_upgrade_checks.ResultTest):
    def test_unlimited(self):
        self.assert_success(
            upgrade_quotas.check(upgrade_quotas.Quotas(-1, -1, -1), [FLAVOR])
        )

    def test_enough(self):
        self.assert_success(
            upgrade_quotas.check(
                upgrade_quotas.Quotas(40, 4000, 100), [FLAVOR]
            )
        )

    def test_no_flavors(self):
        self.assert_success(
            upgrade_quotas.check(upgrade_quotas.Quotas(0, 0, 0), [])
        )

    def test_the_defaults_of_cinder(self):
        self.assert_warning(
            upgrade_quotas.check(
                upgrade_quotas.Quotas(10, 1000, -1), [FLAVOR]
            ),
            'quota volumes is 10',
            'of these flavors: hadoop (2)',
            'openstack quota set --volumes',
        )

    def test_no_server_at_all(self):
        for limits, named in (
            ((3, -1, -1), 'quota volumes is 3'),
            ((-1, 399, -1), 'quota gigabytes is 399'),
            ((-1, -1, 99), 'per_volume_gigabytes is 99'),
        ):
            self.assert_failure(
                upgrade_quotas.check(upgrade_quotas.Quotas(*limits), [FLAVOR]),
                named,
            )

    def test_each_flavor_and_quota_counts(self):
        """What allows a few servers hides nothing that allows none."""
        self.assert_failure(
            upgrade_quotas.check(
                upgrade_quotas.Quotas(10, 1000, 400),
                [
                    checks.Flavor('few', 4, 50),
                    checks.Flavor('large', 4, 300),
                    checks.Flavor('huge', 1, 500),
                ],
            ),
            'quota gigabytes is 1000, ',
            'needs more: large (1200). ',
            'quota per_volume_gigabytes is 400, ',
            'more GiB: huge (500). ',
        )

    @given(
        *3 * [st.integers(-1, 100)],
        st.lists(
            st.builds(
                checks.Flavor,
                st.just('f'),
                st.integers(1, 24),
                st.integers(1, 24),
            ),
            max_size=3,
        ),
    )
    def test_how_many_servers_there_is_room_for(
        self, volumes, gigabytes, per_volume, flavors
    ):
        result = upgrade_quotas.check(
            upgrade_quotas.Quotas(volumes, gigabytes, per_volume),
            [
                dataclasses.replace(flavor, name=str(number))
                for number, flavor in enumerate(flavors)
            ],
        )
        room = min(
            (
                limit // needed
                for flavor in flavors
                for limit, needed in (
                    (volumes, flavor.vdisks),
                    (gigabytes, flavor.vdisks * flavor.vdisk_gb),
                )
                if limit >= 0
            ),
            default=10,
        )
        if any(0 <= per_volume < flavor.vdisk_gb for flavor in flavors):
            room = 0
        code = checks.Code.SUCCESS if room >= 10 else checks.Code.WARNING
        self.assertEqual(code if room else checks.Code.FAILURE, result.code)
