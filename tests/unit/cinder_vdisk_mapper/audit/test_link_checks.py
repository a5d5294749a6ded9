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
import unittest

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import link_checks
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.vdisks.record import Record
from nova_diskplacer.disks import links as links_
from tests.fakes.disks import make_disk
from tests.fakes.disks import make_vdisk

ATTACHED = Record('1', 'volume-1', 'd1', 2, 'in-use')
DETACHED = dataclasses.replace(ATTACHED, status='available')


class LinkChecksTestCase(unittest.TestCase):
    def found(
        self,
        records,
        links,
        held=('d1',),
        forgotten=(),
        to_devices=(),
        devices=(),
        moved=(),
        moving=(),
        **healths,
    ):
        """Return (kind, disk, repair) of what is found on two disks."""
        disks = tuple(
            make_disk(
                uuid,
                health=healths.get(uuid, 'ok'),
                held=[make_vdisk('1', None, 2)] if uuid in held else [],
            )
            for uuid in ('d1', 'd2')
        )
        host = state.HostState(
            tuple(records),
            disks,
            {},
            frozenset(forgotten),
            links=links,
            to_devices=frozenset(to_devices),
            devices=frozenset(devices),
            moved=frozenset(moved),
            moving=frozenset(moving),
        )
        return [
            (one.kind, one.disk, one.repair) for one in link_checks.check(host)
        ]

    def test_as_it_should_be(self):
        self.assertEqual([], self.found([ATTACHED], {'volume-1': 'd1'}))
        self.assertEqual([], self.found([DETACHED], {'volume-1': 'd1'}))
        self.assertEqual([], self.found([DETACHED], {}))

    def test_devices(self):
        name = 'volume-1'
        one, two = ('d1', name), ('d2', name)
        missing = ('missing-device', 'd1', findings.LINK)
        unused = ('unused-device', 'd2', findings.DETACH)
        for record, to_device, devices, moved, expected in (
            (ATTACHED, True, [one], False, []),
            (ATTACHED, True, [], False, [missing]),
            (ATTACHED, False, [], False, []),
            # the next attachment makes it
            (DETACHED, True, [], False, []),
            # it may be about to be attached
            (DETACHED, True, [one], False, []),
            (dataclasses.replace(ATTACHED, settled=False), True, [], 0, []),
            (ATTACHED, True, [one, two], False, [unused]),
            # QEMU copies to it
            (ATTACHED, True, [one, two], True, []),
            (ATTACHED, True, [two], True, [missing]),
            (ATTACHED, False, [two], False, [unused]),
        ):
            found = self.found(
                [record],
                {name: 'd1'},
                to_devices=[name] if to_device else [],
                devices=devices,
                moved=[name] if moved else [],
            )
            self.assertEqual(expected, found, (record, to_device, devices))
        # QEMU copies to it the data of a server that has moved here
        self.assertEqual(
            [],
            self.found(
                [dataclasses.replace(ATTACHED, settled=False)],
                {name: links_.REMOTE},
                to_devices=[name],
                devices=[one],
            ),
        )
        # of a vdisk that no volume is
        self.assertEqual(
            [('unused-device', 'd1', findings.DETACH)],
            self.found([], {}, devices=[one]),
        )

    def test_of_an_attached_volume(self):
        missing = [('missing-link', 'd1', findings.LINK)]
        for links in ({}, {'volume-1': 'd2'}):
            self.assertEqual(missing, self.found([ATTACHED], links))
        self.assertEqual(missing, self.found([DETACHED], {'volume-1': 'd2'}))

    def test_of_a_volume_that_is_attached_in_two_ways(self):
        record = dataclasses.replace(
            ATTACHED, connections=frozenset(('gpfs', 'local'))
        )
        self.assertEqual(
            [('missing-link', 'd1', '')], self.found([record], {})
        )
        # what it led to tells what it was attached as
        self.assertEqual(
            [('missing-link', 'd1', findings.LINK)],
            self.found([record], {'volume-1': 'd2'}),
        )
        self.assertEqual([], self.found([record], {'volume-1': 'd1'}))

    def test_the_disk_of_the_link_is_not_known(self):
        links = {'volume-1': None}
        for record in (
            ATTACHED,
            DETACHED,
            dataclasses.replace(ATTACHED, settled=False),
        ):
            for held in (('d1',), ('d1', 'd2'), ('d2',), ()):
                self.assertEqual(
                    [('unknown-link', 'd1', '')],
                    self.found([record], links, held),
                )
        # nobody's, and maybe no link
        self.assertEqual([('unknown-link', '', '')], self.found([], links))

    def test_volumes_that_cannot_be_judged(self):
        for record in (
            dataclasses.replace(ATTACHED, settled=False),
            dataclasses.replace(ATTACHED, disk='d2'),
            dataclasses.replace(ATTACHED, disk=None),
        ):
            self.assertEqual([], self.found([record], {}))

    def test_interrupted_move(self):
        self.assertEqual(
            [('unfinished-move', 'd1', findings.FOLLOW)],
            self.found([ATTACHED], {'volume-1': 'd2'}, ('d1', 'd2')),
        )
        self.assertEqual(
            [('unfinished-move', 'd1', '')],
            self.found(
                [ATTACHED], {'volume-1': 'd2'}, ('d1', 'd2'), d2='hung'
            ),
        )

    def test_the_disk_of_the_link_may_come_back(self):
        for health in ('missing', 'hung'):
            self.assertEqual(
                [('missing-link', 'd1', '')],
                self.found([ATTACHED], {'volume-1': 'd2'}, d2=health),
            )
        self.assertEqual(
            [('missing-link', 'd1', '')],
            self.found([ATTACHED], {'volume-1': 'd3'}),
        )
        self.assertEqual(
            [('missing-link', 'd1', findings.LINK)],
            self.found([ATTACHED], {'volume-1': 'd3'}, forgotten=('d3',)),
        )

    def test_of_a_volume_that_is_gone(self):
        stale = [('stale-link', 'd1', findings.UNLINK)]
        links = {'volume-1': 'd1'}
        self.assertEqual(stale, self.found([], links, ()))
        # the disk that it is to come to is not there now
        remote = {'volume-1': links_.REMOTE}
        self.assertEqual([], self.found([], remote, (), moving=['volume-1']))
        self.assertEqual(
            [('stale-link', links_.REMOTE, findings.UNLINK)],
            self.found([], remote, ()),
        )
        gone = dataclasses.replace(ATTACHED, deleted=True)
        self.assertEqual(stale, self.found([gone], links, ()))
        # its vdisk is an orphan, and goes with it
        self.assertEqual([], self.found([gone], links))
