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

import fixtures
import testtools

from diskplacer_measure.sweep.measure import claims
from nova_diskplacer import exception
from nova_diskplacer.placement.client import GB
from tests.fakes import disks as fake_disks
from tests.unit.diskplacer_measure.sweep import samples
from tests.unit.diskplacer_measure.sweep import world


class ClaimsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.world = self.useFixture(world.World())
        self.placement = self.world.placement
        self.claims = self.make_claims(3)

    def make_claims(self, need_gb):
        return claims.Claims(
            self.placement,
            '/disks',
            self.world.disk(samples.DISK),
            samples.RUN,
            need_gb,
            settle=30,
        )

    def held(self):
        return {
            disk: resources[GB]
            for disk, resources in self.placement.claims.get(
                samples.RUN, {}
            ).items()
        }

    def test_all_but_the_room_of_two_boots(self):
        before = self.world.time()
        self.claims.hold()
        self.assertEqual({samples.DISK: 34, world.OTHER: 40}, self.held())
        self.assertLess(self.world.time(), before + 1)

    def test_again(self):
        self.claims.hold()
        self.claims.hold()
        self.assertEqual({samples.DISK: 34, world.OTHER: 40}, self.held())

    def test_a_disk_with_room_for_one_boot_only(self):
        before = self.world.time()
        self.make_claims(25).hold()
        self.assertEqual({world.OTHER: 40}, self.held())
        # the schedulers do not know yet what the boot before has freed
        self.assertGreaterEqual(self.world.time(), before + 30)

    def test_claims_of_others_stay(self):
        self.placement.claims['a-server'] = {
            samples.DISK: {GB: 8},
            world.OTHER: {GB: 40},
        }
        self.claims.hold()
        self.assertEqual({samples.DISK: 26}, self.held())
        self.claims.release()
        self.assertEqual(['a-server'], list(self.placement.claims))

    def test_disks_of_another_medium(self):
        disks = [
            fake_disks.make_disk(samples.DISK),
            fake_disks.make_disk(world.OTHER, medium='ssd'),
        ]
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.discover', lambda root: disks
            )
        )
        self.claims.hold()
        self.assertEqual({samples.DISK: 34}, self.held())

    def test_a_missing_disk_may_return(self):
        disks = [fake_disks.make_disk(world.OTHER, medium='')]
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.disks.discover.discover', lambda root: disks
            )
        )
        self.claims.hold()
        self.assertEqual({samples.DISK: 34, world.OTHER: 40}, self.held())

    def test_too_little_room(self):
        error = self.assertRaises(
            exception.DiskPlacerError, self.make_claims(41).hold
        )
        self.assertIn('40 GiB free in Placement, 41 GiB', str(error))
        self.assertEqual({}, self.held())

    def test_others_claim_meanwhile(self):
        claim, refusals = self.placement.claim, []

        def refuse(*arguments):
            if len(refusals) < 3:
                refusals.append(None)
                raise exception.Conflict('changed')
            claim(*arguments)

        self.placement.claim = refuse
        self.claims.hold()
        self.assertEqual({samples.DISK: 34, world.OTHER: 40}, self.held())

    def test_others_do_not_stop(self):
        def refuse(*arguments):
            raise exception.Conflict('changed')

        self.placement.claim = refuse
        self.assertRaises(exception.Conflict, self.claims.hold)

    def test_release_is_repeatable(self):
        self.claims.hold()
        self.claims.release()
        self.claims.release()
        self.assertEqual({}, self.held())
