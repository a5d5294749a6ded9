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

import contextlib
import io
import json
import sys
import unittest
from unittest import mock

from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.cmd import audit as cmd
from cinder_vdisk_mapper.cmd import cinder_conf
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage

ORPHAN = findings.Finding(
    'orphan', 'd1', 'volume-1', '1', '2 GiB', findings.DELETE, ''
)
SIZE = findings.Finding(
    'wrong-size', 'd1', 'volume-2', '2', 'small', findings.EXTEND, ''
)
LOST = findings.Finding('lost', 'd2', 'volume-3', '3', 'nowhere', '', 'mourn')


class Host:
    """A host with findings; one follows another that was repaired.

    ``refused`` are those that cannot be repaired at present.
    """

    def __init__(self, found, hidden=None, refused=()):
        self.found = list(found)
        self.hidden = hidden or {}
        self.refused = refused

    def audit(self):
        return list(self.found)

    def repair(self, findings):
        done = [one for one in findings if one not in self.refused]
        for finding in done:
            self.found.remove(finding)
            self.found += self.hidden.pop(finding, [])
        return done


class RunTestCase(unittest.TestCase):
    def test_only_looks(self):
        host = Host([ORPHAN, LOST])
        self.assertEqual(([ORPHAN, LOST], []), cmd._run(host, False))

    def test_repairs_what_can_be(self):
        host = Host([ORPHAN, LOST])
        self.assertEqual(([LOST], [ORPHAN]), cmd._run(host, True))

    def test_repairs_what_a_repair_has_shown(self):
        host = Host([ORPHAN], {ORPHAN: [SIZE]})
        self.assertEqual(([], [ORPHAN, SIZE]), cmd._run(host, True))

    def test_ends_where_nothing_can_be_repaired(self):
        host = Host([ORPHAN, SIZE], refused=[SIZE])
        self.assertEqual(([SIZE], [ORPHAN]), cmd._run(host, True))


class ShowTestCase(unittest.TestCase):
    def test_json(self):
        shown = json.loads(cmd._json([LOST], [ORPHAN]))
        self.assertEqual(
            [
                {
                    'kind': 'lost',
                    'disk': 'd2',
                    'vdisk': 'volume-3',
                    'owner': '3',
                    'message': 'nowhere',
                    'repair': '',
                    'advice': 'mourn',
                }
            ],
            shown['findings'],
        )
        self.assertEqual('orphan', shown['repaired'][0]['kind'])

    def test_table(self):
        shown = cmd._table([LOST], [ORPHAN])
        self.assertLess(shown.index('orphan'), shown.index('lost'))
        self.assertIn('mourn', shown)

    def test_nothing(self):
        self.assertEqual(
            'Cinder, the disks and Placement agree.', cmd._table([], [])
        )


class CommandTestCase(unittest.TestCase):
    def parse(self, *arguments):
        return manage.make_parser().parse_args(['disk', 'audit', *arguments])

    def test_it_is_a_command_of_diskplacer_manage(self):
        args = self.parse('--repair', '--stuck-after', '5')
        self.assertEqual((True, 5), (args.repair, args.stuck_after))
        # cinder.conf is read in place of nova.conf
        self.assertIs(cinder_conf.configure, args.configure)

    def test_bad_stuck_after(self):
        for bad in ('0', '-1', 'long'):
            error = io.StringIO()
            with (
                self.assertRaises(SystemExit),
                contextlib.redirect_stderr(error),
            ):
                self.parse('--stuck-after', bad)
            self.assertIn('stuck-after', error.getvalue())

    def test_host_without_cinder(self):
        with mock.patch.dict(sys.modules, {'cinder': None}):
            with self.assertRaisesRegex(
                exception.DiskPlacerError, 'a host with cinder-volume'
            ):
                cinder_conf.configure(self.parse())
