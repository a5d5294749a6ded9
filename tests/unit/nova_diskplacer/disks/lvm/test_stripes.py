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

import concurrent.futures
import os
import time

import fixtures
import hypothesis
import testtools
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.disks.lvm import stripe_snapshots
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import files
from tests.unit.nova_diskplacer.disks.lvm import fake_lvm
from tests.unit.nova_diskplacer.disks.lvm import fake_stripes

GIB = fake_lvm.GIB
LOCATION = fake_stripes.LOCATION
UUIDS = fake_stripes.UUIDS
CHUNK = naming.CHUNK_BYTES


def places(lines):
    """Return (piece, sector) of each sector of a table, chunk by chunk."""
    found = {}
    for line in lines:
        start, length, target, *rest = line.split()
        start, length = int(start), int(length)
        if target == 'linear':
            piece, offset = rest
            for sector in range(length):
                found[start + sector] = piece, int(offset) + sector
            continue
        number, chunk, pieces = int(rest[0]), int(rest[1]), rest[2::2]
        for sector in range(length):
            index, inside = divmod(sector, chunk)
            row, column = divmod(index, number)
            found[start + sector] = pieces[column], row * chunk + inside
    return found


class LockTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(files.set_lock_directory, files._lock_directory)
        files.set_lock_directory(self.useFixture(fixtures.TempDir()).path)
        for name, seconds in (('_PATIENCE', 0.3), ('_INTERVAL', 0.01)):
            self.useFixture(fixtures.MockPatchObject(stripes, name, seconds))

    def test_a_disk_that_hangs_holds_others_up_for_a_while_only(self):
        with stripes.locked('volume-1'):
            start = time.monotonic()
            for change in (
                stripes.deactivate,
                stripes.remove_devices,
                lambda name: stripes.activate_stripe('a,b', name, GIB),
            ):
                self.assertRaisesRegex(
                    exception.DiskError,
                    'volume-1: another process has held lock .* for 0.3 s',
                    change,
                    'volume-1',
                )
            self.assertGreaterEqual(time.monotonic() - start, 0.9)
            with testtools.ExpectedException(BlockingIOError):
                with stripes.locked('volume-1', wait=False):
                    self.fail('it is locked')
        with stripes.locked('volume-1', wait=False):
            pass

    def test_the_next_one_waits_until_it_is_released(self):
        released = []
        with concurrent.futures.ThreadPoolExecutor(1) as pool:

            def next_one():
                with stripes.locked('volume-1'):
                    return list(released)

            with stripes.locked('volume-1'):
                waiting = pool.submit(next_one)
                time.sleep(0.05)
                self.assertFalse(waiting.done())
                released.append('volume-1')
            self.assertEqual(['volume-1'], waiting.result())

    def test_errors_of_what_is_done_meanwhile(self):
        """They are no sign that it is locked, whatever they are."""
        for wait in (False, True):
            with testtools.ExpectedException(BlockingIOError, 'inside'):
                with stripes.locked('volume-1', wait):
                    raise BlockingIOError('inside')


class TableTest(testtools.TestCase):
    @hypothesis.given(
        st.integers(2, 6), st.integers(1, 40), st.integers(0, 40)
    )
    def test_layout(self, number, chunks, more):
        """The device is as large as the vdisk, whose layout never changes."""
        pieces = [f'/p{index}' for index in range(number)]
        chunk = 1024
        found = places(stripes.table(pieces, chunks * chunk, chunk))
        self.assertEqual(list(range(chunks * 2)), sorted(found))
        for index in range(chunks):
            row, column = divmod(index, number)
            self.assertEqual((pieces[column], row * 2), found[2 * index])
        larger = places(stripes.table(pieces, (chunks + more) * chunk, chunk))
        self.assertEqual(found, {one: larger[one] for one in found})
        # no piece needs more than its equal part
        rows = -(-chunks // number)
        self.assertTrue(all(sector < 2 * rows for _, sector in found.values()))
        self.assertEqual(len(found), len(set(found.values())))

    def test_whole_rows(self):
        self.assertEqual(
            ['0 4096 striped 2 512 /a 0 /b 0'],
            stripes.table(['/a', '/b'], 2 << 20, CHUNK),
        )


class StripesTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.lvm = self.useFixture(fake_stripes.FakeStripes())

    def create(self, disks=UUIDS, name='volume-1', location=LOCATION):
        for uuid in disks:
            volumes.create_piece(uuid, name, '1', 'server', GIB, location, 0)

    def activate(self, size=2 * GIB, location=LOCATION):
        return stripes.activate_stripe(location, 'volume-1', size)

    def snapshot(self):
        stripe_snapshots.snapshot_stripe(
            LOCATION, 'volume-1', 'snapshot-s', 's'
        )

    def test_pieces(self):
        self.create()
        for uuid in UUIDS:
            (vdisk,) = groups.require(uuid).vdisks
            self.assertEqual(UUIDS, vdisk.stripe)
            self.assertEqual('server', vdisk.server_id)
            self.assertTrue(vdisk.usable)
        other = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d29'
        for location in (other, f'{UUIDS[0]},x', f'{other},{UUIDS[1]}'):
            self.assertRaises(
                exception.DiskError,
                self.create,
                UUIDS[:1],
                'volume-2',
                location,
            )

    def test_activate_again_after_a_disk_came_back(self):
        self.create()
        self.activate()
        legs = [self.lvm.of(uuid).volumes['volume-1'] for uuid in LOCATION]
        for leg in legs:
            leg.active = False
        self.activate()
        self.assertTrue(all(leg.active for leg in legs))

    def test_activate(self):
        self.create()
        path = self.activate()
        self.assertEqual(path, self.activate())
        table = self.lvm.devices['diskplacer-striped-volume-1'].split('\n')
        self.assertEqual(
            2 * GIB // 512, len(places(table[1:])) + int(table[0].split()[1])
        )
        stripes.deactivate_stripe(LOCATION, 'volume-1')
        stripes.deactivate_stripe(LOCATION, 'volume-1')
        self.assertEqual({}, self.lvm.devices)

    def test_refused(self):
        self.create(UUIDS[:2])
        error = self.assertRaises(exception.DiskError, self.activate)
        self.assertIn('has no vdisk volume-1', str(error))
        self.create()
        for arguments, reason in (
            ((3 * GIB + 1,), 'repeat the extension'),
            ((GIB, Location(reversed(UUIDS))), 'is not a piece'),
        ):
            error = self.assertRaises(
                exception.DiskError, self.activate, *arguments
            )
            self.assertIn(reason, str(error))
        volumes.create(UUIDS[0], 'volume-2', '2', None, GIB)
        self.assertRaises(
            exception.DiskError,
            stripes.activate_stripe,
            Location((UUIDS[0],)),
            'volume-2',
            GIB,
        )

    def test_deleted_piece_by_piece(self):
        self.create()
        path = self.activate()
        self.lvm.open = {os.path.basename(path)}
        self.assertRaises(
            exception.DiskError, volumes.delete, UUIDS[0], 'volume-1'
        )
        self.assertTrue(groups.require(UUIDS[0]).vdisks)
        self.lvm.open = set()
        for uuid in UUIDS:
            volumes.delete(uuid, 'volume-1')
        self.assertEqual({}, self.lvm.devices)

    def test_snapshot_is_of_one_moment(self):
        self.create()
        self.activate()
        for count in range(99):
            self.lvm.frozen.clear()
            try:
                with self.lvm.killed_at(count):
                    self.snapshot()
                break
            except fake_lvm.Killed:
                pieces = [
                    piece
                    for uuid in UUIDS
                    if (piece := groups.require(uuid).find('snapshot-s'))
                ]
                usable = [piece for piece in pieces if piece.vdisk.usable]
                if usable:
                    self.assertEqual(3, len(pieces))
            if count % 2:
                # something else is there when it is repeated
                for uuid in UUIDS:
                    self.lvm.of(uuid).write('volume-1', f'word-{count}')
            self.snapshot()
            contents = {
                tuple(self.lvm.of(uuid).read('snapshot-s')) for uuid in UUIDS
            }
            self.assertEqual(1, len(contents))
            self.assertEqual(set(), self.lvm.suspended)
            self.assertNotIn(False, self.lvm.frozen)
            for uuid in UUIDS:
                self.assertTrue(
                    groups.require(uuid).require('snapshot-s').vdisk.usable
                )
                volumes.delete(uuid, 'snapshot-s')
        self.assertGreater(count, 6)

    def test_snapshot_of_another(self):
        self.create()
        volumes.create(UUIDS[1], 'snapshot-s', 'other', None, GIB)
        error = self.assertRaises(exception.DiskError, self.snapshot)
        self.assertIn("belongs to 'other'", str(error))

    def test_create_that_was_killed(self):
        self.create()
        self.lvm.devices['diskplacer-striped-volume-1'] = ''
        self.assertTrue(os.path.exists(self.activate()))
        self.assertIn(
            'striped 3', self.lvm.devices['diskplacer-striped-volume-1']
        )

    def test_a_snapshot_under_way_is_not_resumed(self):
        self.create()
        path = self.activate()
        with stripes.suspended('volume-1'):
            stripes.resume_stripes()
            self.assertEqual({os.path.basename(path)}, self.lvm.suspended)
        self.assertEqual(set(), self.lvm.suspended)

    def test_suspended_by_a_kill(self):
        self.create()
        path = self.activate()
        self.lvm.suspended.add(os.path.basename(path))
        stripes.resume_stripes()
        self.assertEqual(set(), self.lvm.suspended)
        self.lvm.suspended.add(os.path.basename(path))
        self.activate()
        self.assertEqual(set(), self.lvm.suspended)
