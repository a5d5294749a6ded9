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

"""nova-api, scheduler and driver agree on the vdisks of a server.

What the filter of nova-api lets pass is bound here as Nova attaches it: the
volumes that exist, then those of snapshots and images, then the blank ones.
"""

import types

import fixtures
import hypothesis
import testtools
from hypothesis import strategies as st
from oslo_concurrency import lockutils
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.attach import bind_request
from cinder_vdisk_mapper.attach import binding
from cinder_vdisk_mapper.vdisks import operations
from nova_diskplacer import flavor
from nova_diskplacer.api import decision
from nova_diskplacer.placement import client as placement_client
from tests.fakes import disks as fake_disks
from tests.unit.cinder_vdisk_mapper import fakes

TOTAL = 100
TYPES = ('vdisk', 'other')
ORDER = ('volume', 'snapshot', 'image', 'blank')


@st.composite
def volumes(draw):
    """Return a volume of a request, and its source."""
    source = draw(st.sampled_from(ORDER))
    return source, decision.Volume(
        draw(st.integers(1, 4)),
        draw(st.none() | st.sampled_from(TYPES)),
        is_blank=source == 'blank',
        is_new=source != 'volume',
        bootable=source == 'image'
        or (source != 'blank' and draw(st.booleans())),
    )


requests = st.lists(volumes(), max_size=6)
flavors = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 4),
    vdisk_gb=st.integers(1, 4),
    mapping=st.sampled_from(['round_robin', 'consolidated']),
    volume_type=st.none() | st.sampled_from(TYPES),
)


class AgreementTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        conf = self.useFixture(config_fixture.Config(lockutils.CONF))
        path = self.useFixture(fixtures.TempDir()).path
        conf.config(lock_path=path, group='oslo_concurrency')

    @hypothesis.given(flavors, requests, st.sampled_from(TYPES))
    def test_a_boot_that_nova_api_lets_pass(
        self, wanted, brought, default_type
    ):
        request = decision.Request(tuple(one for _, one in brought))
        try:
            missing = decision.missing_vdisks(wanted, request, default_type)
        except decision.Refused:
            return
        claims = {'a': wanted.vdisks * wanted.vdisk_gb}
        if wanted.mapping == 'round_robin':
            claims = dict.fromkeys('abcd'[: wanted.vdisks], wanted.vdisk_gb)
        server = nova_api.Server('server', fakes.PROJECT, 'node', wanted)
        disks = [fake_disks.make_disk(uuid, TOTAL) for uuid in 'abcd']
        self.backend = fakes.Backend(*disks)
        placement = fakes.Placement(*disks)
        placement.claim('server', claims)
        binder = binding.Binder(
            operations.VDiskOperations(self.backend, placement), 'any'
        )
        ordered = sorted(brought, key=lambda one: ORDER.index(one[0]))
        ordered += [('blank', one) for one in missing]
        attached = {disk: set() for disk in 'abcd'}
        others = 0
        for number, (source, one) in enumerate(ordered):
            volume = types.SimpleNamespace(
                size=one.size_gb,
                bootable=one.bootable,
                volume_type=types.SimpleNamespace(
                    name=one.volume_type or default_type
                ),
            )
            of_flavor = bind_request.is_of_flavor(server, volume)
            name = f'volume-{number}'
            (where,) = binder.bind(
                bind_request.BindRequest(
                    name,
                    str(number),
                    one.size_gb,
                    'round_robin',
                    server,
                    boot_time=source == 'blank',
                    of_flavor=of_flavor,
                    attached=lambda: attached,
                )
            )
            if of_flavor:
                attached[where].add(name)
            else:
                others += one.size_gb
        # the vdisks are where they are claimed, the others where nobody claims
        self.assertEqual(
            {disk: gb // wanted.vdisk_gb for disk, gb in claims.items()},
            {disk: len(held) for disk, held in attached.items() if held},
        )
        self.assertEqual(
            others,
            sum(
                offered[placement_client.GB]['reserved']
                for offered in placement.offered.values()
            ),
        )
