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

"""Tests of the decision about the vdisks of a request."""

import dataclasses
import unittest

import hypothesis
from hypothesis import strategies as st

from nova_diskplacer import flavor
from nova_diskplacer.api import decision
from nova_diskplacer.api.decision import Refused
from nova_diskplacer.api.decision import Request
from nova_diskplacer.api.decision import Volume

TYPED = flavor.VDiskRequest(4, 100, volume_type='vdisk')
UNTYPED = flavor.VDiskRequest(4, 100)

EXISTING = Volume(100, 'vdisk')
BLANK = Volume(100, is_blank=True, is_new=True)
ROOT = Volume(20, is_new=True, bootable=True)

types = st.sampled_from(['vdisk', 'ceph'])
volumes = st.builds(
    Volume,
    size_gb=st.sampled_from([None, 50, 100]),
    volume_type=st.none() | types,
    is_blank=st.booleans(),
    is_new=st.booleans(),
    bootable=st.booleans(),
)
flavors = st.builds(
    flavor.VDiskRequest,
    vdisks=st.integers(1, 3),
    vdisk_gb=st.sampled_from([50, 100]),
    volume_type=st.none() | types,
)
requests = st.builds(
    Request,
    volumes=st.lists(volumes, max_size=4).map(tuple),
    servers=st.integers(1, 3),
    names_types=st.booleans(),
    is_legacy=st.booleans(),
)


def is_vdisk(volume, wanted, default_type):
    """The rule, written a second time."""
    return (
        not volume.bootable
        and volume.size_gb == wanted.vdisk_gb
        and (
            wanted.volume_type is None
            or (volume.volume_type or default_type) == wanted.volume_type
        )
    )


class MissingVDisksTest(unittest.TestCase):
    def _refused(self, wanted, request, default_type=None):
        with self.assertRaises(Refused) as raised:
            decision.missing_vdisks(wanted, request, default_type)
        return str(raised.exception)

    def _missing(self, wanted, *brought, default_type=None, **kwargs):
        return decision.missing_vdisks(
            wanted, Request(brought, **kwargs), default_type
        )

    def test_a_request_that_brings_none(self):
        vdisk = dataclasses.replace(BLANK, volume_type='vdisk')
        self.assertEqual((vdisk,) * 4, self._missing(TYPED))
        self.assertEqual((vdisk,) * 4, self._missing(TYPED, ROOT))
        self.assertEqual((BLANK,) * 4, self._missing(UNTYPED, ROOT))

    def test_volumes_of_other_types_are_no_vdisks(self):
        ceph = Volume(50, 'ceph')
        self.assertEqual(4, len(self._missing(TYPED, ceph)))
        self.assertEqual((), self._missing(TYPED, ceph, *[EXISTING] * 4))

    def test_the_right_ones(self):
        for one in (
            EXISTING,
            dataclasses.replace(BLANK, volume_type='vdisk'),
            Volume(100, 'vdisk', is_new=True),
        ):
            self.assertEqual((), self._missing(TYPED, ROOT, *[one] * 4))
        self.assertEqual((), self._missing(UNTYPED, *[EXISTING, BLANK] * 2))

    def test_wrong_number_and_size_are_both_named(self):
        small = Volume(50, 'vdisk')
        text = self._refused(TYPED, Request((EXISTING, EXISTING, small)))
        self.assertIn('The flavor has 4 volumes of 100 GiB', text)
        self.assertIn('brings 2 volumes of 100 GiB and 1 volume of 50', text)
        self.assertIn('beside the vdisks need another size or type', text)
        self._refused(TYPED, Request((EXISTING,) * 5))
        # as many as there are vdisks are most likely meant to be them
        self._refused(TYPED, Request((small,) * 4))

    def test_volumes_of_other_sizes_are_no_vdisks(self):
        for size in (50, 200):
            other = Volume(size, 'vdisk', is_blank=True, is_new=True)
            for number in (1, 3, 5):
                others = (other,) * number
                self.assertEqual(4, len(self._missing(TYPED, ROOT, *others)))
                self.assertEqual(
                    (), self._missing(TYPED, *others, *[EXISTING] * 4)
                )
        # one may be anything
        alone = dataclasses.replace(TYPED, vdisks=1)
        self.assertEqual(1, len(self._missing(alone, other)))

    def test_bootable_volumes_are_no_vdisks(self):
        """However large they are, and wherever the server boots from."""
        for size in (None, 50, 100, 200):
            root = Volume(size, 'vdisk', bootable=True)
            self.assertEqual(4, len(self._missing(TYPED, *[root] * 4)))
            self.assertEqual((), self._missing(TYPED, root, *[EXISTING] * 4))

    def test_blank_volumes_of_the_default_type(self):
        request = Request((BLANK,) * 4)
        self.assertTrue(decision.needs_default_type(TYPED, request))
        self.assertEqual((), decision.missing_vdisks(TYPED, request, 'vdisk'))
        text = self._refused(TYPED, request, 'ceph')
        self.assertIn("project's default type ceph", text)
        # beside the vdisks they are no mistake
        self.assertEqual(
            (),
            self._missing(TYPED, BLANK, *[EXISTING] * 4, default_type='ceph'),
        )

    def test_old_microversions_use_the_default_type(self):
        old = Request(names_types=False)
        self.assertTrue(decision.needs_default_type(TYPED, old))
        self.assertEqual(
            (BLANK,) * 4, decision.missing_vdisks(TYPED, old, 'vdisk')
        )
        text = self._refused(TYPED, old, 'ceph')
        self.assertIn('default volume type is ceph', text)
        self.assertIn('microversion 2.67 or later', text)
        self.assertFalse(decision.needs_default_type(UNTYPED, old))
        self.assertEqual((BLANK,) * 4, decision.missing_vdisks(UNTYPED, old))

    def test_old_mappings_bring_all_or_nothing(self):
        text = self._refused(TYPED, Request(is_legacy=True))
        self.assertIn('block_device_mapping_v2', text)
        self.assertEqual(
            (), self._missing(TYPED, *[EXISTING] * 4, is_legacy=True)
        )

    @hypothesis.given(flavors, requests, types)
    def test_a_request_is_whole_refused_or_completed(
        self, wanted, request, default_type
    ):
        known = default_type
        if not decision.needs_default_type(wanted, request):
            known = None
        brought = sum(
            is_vdisk(v, wanted, default_type) for v in request.volumes
        )
        try:
            missing = decision.missing_vdisks(wanted, request, known)
        except Refused:
            self.assertNotEqual(brought, wanted.vdisks, 'it is right')
            return
        had = [wanted.vdisk_gb] * wanted.vdisks
        if missing:
            self.assertEqual(0, brought)
            self.assertFalse(request.is_legacy)
            self.assertEqual(had, [v.size_gb for v in missing])
            for one in missing:
                self.assertTrue(is_vdisk(one, wanted, default_type))
                self.assertIn(one.volume_type, (None, wanted.volume_type))
                if not request.names_types:
                    self.assertIsNone(one.volume_type)
        else:
            self.assertEqual(wanted.vdisks, brought)

    @hypothesis.given(flavors, requests, types)
    def test_what_is_added_is_enough(self, wanted, request, default_type):
        try:
            missing = decision.missing_vdisks(wanted, request, default_type)
        except Refused:
            return
        completed = dataclasses.replace(
            request, volumes=request.volumes + missing
        )
        self.assertEqual(
            (), decision.missing_vdisks(wanted, completed, default_type)
        )


class MappingTest(unittest.TestCase):
    def test_named_type(self):
        (vdisk,) = decision.missing_vdisks(
            flavor.VDiskRequest(1, 100, volume_type='vdisk'), Request()
        )
        self.assertEqual(
            {
                'source_type': 'blank',
                'destination_type': 'volume',
                'volume_size': 100,
                'volume_type': 'vdisk',
                'boot_index': -1,
                'delete_on_termination': True,
            },
            decision.mapping(vdisk),
        )

    def test_old_microversions_know_no_types(self):
        self.assertNotIn('volume_type', decision.mapping(BLANK))


class LocalCopiesTest(unittest.TestCase):
    """New volumes with content, beside or as vdisks."""

    HOSTS = {'vdisk': 2, 'small': 1}

    def local(self, *volumes, default_type='vdisk', **kwargs):
        asked = []
        found = decision.local_copies(
            Request(volumes, **kwargs),
            lambda name: self.HOSTS.get(name, 0),
            lambda: asked.append(1) or default_type,
        )
        self.assertLessEqual(len(asked), 1)
        return found

    def test_of_images(self):
        typed = dataclasses.replace(ROOT, volume_type='vdisk')
        other = dataclasses.replace(ROOT, volume_type='ceph')
        self.assertEqual((ROOT, typed), self.local(ROOT, typed, other))
        self.assertEqual((), self.local(ROOT, default_type='ceph'))

    def test_blank_and_existing_volumes(self):
        self.assertEqual((), self.local(BLANK, EXISTING, servers=9))

    def test_of_snapshots(self):
        for volume in (
            dataclasses.replace(ROOT, of_snapshot=True),
            Volume(100, 'vdisk', is_new=True, of_snapshot=True),
        ):
            with self.assertRaisesRegex(
                Refused, 'type vdisk is made of a snapshot.* volume create'
            ):
                self.local(BLANK, volume)
            # all are there
            self.assertEqual((volume,), self.local(volume, names_host=True))
            small = dataclasses.replace(volume, volume_type='small')
            self.assertEqual((), self.local(small))

    def test_several_servers(self):
        with self.assertRaisesRegex(
            Refused, '^Each of 2 servers .* type vdisk made of an image'
        ):
            self.local(ROOT, servers=2)
        self.assertEqual((ROOT,), self.local(ROOT, servers=2, names_host=True))
        small = dataclasses.replace(ROOT, volume_type='small')
        self.assertEqual((), self.local(small, servers=2))
