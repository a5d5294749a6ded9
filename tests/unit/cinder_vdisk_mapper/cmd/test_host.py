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

"""What diskplacer-manage host give-up says."""

import contextlib
import io
import unittest
from unittest import mock

from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.server_moves import lost_host
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage

BACKENDS = {'live@ssd': 1, 'live@hdd': 2}


class GiveUpTest(unittest.TestCase):
    def test_an_error_meanwhile(self):
        """What was done before it is told."""

        def give_up(*args):
            yield lost_host.Entry('volume-1', 'server-1', '')
            raise exception.DiskPlacerError('Nova does not answer')

        printed = io.StringIO()
        args = manage.make_parser().parse_args(
            ['host', 'give-up', 'host1', '--yes']
        )
        with (
            mock.patch.object(backend_sections, 'read', return_value=BACKENDS),
            mock.patch.object(lost_host, 'give_up', give_up),
            contextlib.redirect_stdout(printed),
            self.assertRaisesRegex(exception.DiskPlacerError, 'not answer'),
        ):
            args.handler(None, args)
        self.assertRegex(
            printed.getvalue(), r'volume-1 +\| server-1 +\| given'
        )

    def run_(self, entries, *arguments):
        """Return the exit status, what is printed, and what was asked."""
        args = manage.make_parser().parse_args(
            ['host', 'give-up', 'host1', *arguments]
        )
        printed = io.StringIO()
        with (
            mock.patch.object(backend_sections, 'read', return_value=BACKENDS),
            mock.patch.object(
                lost_host, 'give_up', return_value=entries
            ) as asked,
            contextlib.redirect_stdout(printed),
        ):
            status = args.handler(None, args)
        asked.assert_called_once_with(BACKENDS, 'host1', bool(arguments))
        return status, printed.getvalue()

    def test_what_is_done_and_what_stays(self):
        given_up = lost_host.Entry('volume-1', 'server-1', '')
        stays = lost_host.Entry('volume-2', '', 'it has snapshots')
        status, text = self.run_([given_up, stays])
        self.assertEqual(3, status)
        self.assertIn('to be given up', text)
        self.assertIn('Repeat this with --yes', text)
        status, text = self.run_([given_up, stays], '--yes')
        self.assertEqual(3, status)
        self.assertRegex(text, r'volume-2 +\| - +\| stays +\| it has snapshot')
        self.assertIn('openstack vdisk host lost host1 --yes', text)
        status, text = self.run_([given_up], '--yes')
        self.assertEqual(0, status)
        status, text = self.run_([stays], '--yes')
        self.assertEqual(3, status)
        self.assertNotIn('host lost', text)
        # where it has looked, by Cinder's name of the host
        self.assertEqual(
            (0, 'No volume is on host1@hdd, host1@ssd.\n'), self.run_([])
        )
