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

"""Test that vdisks can fill the offered space, also with shared blocks."""

import itertools

import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer.disks.filesystem import space

GIB = space.GIB


class CapacityTestCase(testtools.TestCase):
    def test_cases(self):
        for size, free, allocated, recorded, total in (
            # 64 MiB are for the filesystem itself
            (10, 10, 0, 0, 9),
            (11, 10.5, 0, 0, 10),
            # foreign data counts, vdisks do not
            (11, 5.5, 5, 0, 10),
            (11, 3.5, 5, 0, 8),
            (11, 0, 0, 0, 0),
            # two vdisks of 4 GiB share all blocks and hide 4 of 5 GiB
            (11, 2, 8, 0, 9),
            (11, 2, 8, 5, 5),
            # foreign data has grown since it was recorded
            (11, 3.5, 5, 1, 8),
        ):
            self.assertEqual(
                total,
                space.capacity_gb(
                    size * GIB, free * GIB, allocated * GIB, recorded * GIB
                ),
            )


class Filesystem:
    """A filesystem of numbered blocks; a vdisk is a list of them."""

    # blocks of a GiB
    SCALE = 4

    def __init__(self, size_gb, foreign):
        self.size = size_gb * self.SCALE
        self.foreign = foreign
        self.vdisks = []
        self.recorded = 0
        self.numbers = itertools.count()

    @property
    def used(self):
        blocks = {block for vdisk in self.vdisks for block in vdisk}
        return self.foreign + len(blocks - {None})

    @property
    def figures(self):
        allocated = sum(
            block is not None for vdisk in self.vdisks for block in vdisk
        )
        unit = GIB // self.SCALE
        return (
            self.size * unit,
            (self.size - self.used) * unit,
            allocated * unit,
            self.recorded,
        )

    @property
    def free_gb(self):
        """GiB for new vdisks."""
        taken = sum(len(vdisk) for vdisk in self.vdisks) // self.SCALE
        return space.capacity_gb(*self.figures) - taken

    def shares(self):
        """Tell whether two vdisks share a block."""
        blocks = [block for vdisk in self.vdisks for block in vdisk if block]
        return len(blocks) > len(set(blocks))

    def create(self):
        self.vdisks.append([next(self.numbers) for _ in range(self.SCALE)])

    def snapshot(self, number):
        self.recorded = space.foreign_bytes_to_record(*self.figures)
        self.vdisks.append(list(self.vdisks[number]))

    def overwrite(self, number, block):
        """Write to a block; a shared or missing one is replaced."""
        vdisk = self.vdisks[number]
        holders = sum(vdisk[block] in other for other in self.vdisks)
        if vdisk[block] is None or holders > 1:
            vdisk[block] = next(self.numbers)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ['create', 'snapshot', 'write', 'discard', 'delete', 'foreign']
        ),
        st.integers(0, 7),
        st.integers(0, 3),
    ),
    max_size=40,
)


class OfferTestCase(testtools.TestCase):
    @hypothesis.given(st.integers(3, 12), st.integers(0, 8), OPERATIONS)
    @hypothesis.settings(max_examples=400)
    def test_vdisks_can_be_filled(self, size_gb, foreign, operations):
        disk = Filesystem(size_gb, foreign)
        for operation, number, block in operations:
            number = number % len(disk.vdisks) if disk.vdisks else None
            if operation == 'create' and disk.free_gb >= 1:
                disk.create()
            elif operation == 'foreign':
                # others must not take space that is promised to vdisks
                if disk.free_gb >= 1 and not disk.shares():
                    disk.foreign += 1
            elif number is None:
                continue
            elif operation == 'snapshot' and disk.free_gb >= 1:
                disk.snapshot(number)
                if disk.free_gb < 0:
                    # the driver undoes it
                    disk.vdisks.pop()
            elif operation == 'write':
                disk.overwrite(number, block)
            elif operation == 'discard':
                disk.vdisks[number][block] = None
            elif operation == 'delete':
                disk.vdisks.pop(number)
            self.assertLessEqual(disk.used, disk.size)
        for number, vdisk in enumerate(disk.vdisks):
            for block in range(len(vdisk)):
                disk.overwrite(number, block)
        self.assertLessEqual(disk.used, disk.size)

    @hypothesis.given(
        st.integers(0, 1 << 42),
        st.integers(0, 1 << 42),
        st.integers(0, 1 << 42),
        st.integers(0, 1 << 42),
        st.integers(0, 1 << 42),
    )
    def test_foreign_data_never_adds(self, size, free, held, first, more):
        self.assertGreaterEqual(
            space.capacity_gb(size, free, held, first),
            space.capacity_gb(size, free, held, first + more),
        )
