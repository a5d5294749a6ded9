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
import os
import unittest
from unittest import mock

from cinder_vdisk_mapper.cmd import cinder_conf
from cinder_vdisk_mapper.drain import plan
from cinder_vdisk_mapper.drain import setup
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'


class Drainer:
    """Says what it is asked; ``stays`` are the vdisks that do."""

    def __init__(self, stays):
        self.stays = stays
        self.asked = []

    def plan(self, uuid):
        self.asked.append('plan')
        return None, plan.Plan({'volume-1': 'other'}, self.stays)

    def drain(self, uuid):
        self.asked.append('drain')
        return self.stays

    def cancel(self, uuid):
        self.asked.append('cancel')
        return self.stays

    def unfilled_claims(self, uuid):
        return {'server': 2}


class DrainTestCase(unittest.TestCase):
    def parse(self, *arguments):
        return manage.make_parser().parse_args(
            ['disk', 'drain', DISK, *arguments]
        )

    def run_(self, *arguments, stays=None, uid=0):
        """Return the exit status, what is printed and what was asked."""
        drainer = Drainer(stays or {})
        output = io.StringIO()
        with (
            mock.patch.object(setup, 'from_conf', return_value=drainer),
            mock.patch.object(os, 'geteuid', return_value=uid),
            contextlib.redirect_stdout(output),
        ):
            args = self.parse(*arguments)
            status = args.handler(None, args)
        return status, output.getvalue(), drainer.asked

    def test_it_reads_cinder_conf(self):
        self.assertIs(cinder_conf.configure, self.parse().configure)

    def test_bad_arguments(self):
        for bad in (
            ['--rate', '0'],
            ['--rate', 'fast'],
            ['--plan', '--cancel'],
        ):
            error = io.StringIO()
            with (
                self.assertRaises(SystemExit),
                contextlib.redirect_stderr(error),
            ):
                self.parse(*bad)
            self.assertIn(bad[0], error.getvalue())

    def test_needs_root(self):
        with self.assertRaisesRegex(exception.DiskPlacerError, 'root'):
            self.run_(uid=1000)

    def test_emptied(self):
        status, text, asked = self.run_()
        self.assertEqual((0, ['drain']), (status, asked))
        self.assertIn(f'disk forget {DISK}', text)
        self.assertIn('server claims 2 GiB', text)

    def test_what_stays(self):
        status, text, _ = self.run_(stays={'volume-2': 'it is a snapshot'})
        self.assertEqual(3, status)
        self.assertIn('it is a snapshot', text)
        self.assertNotIn('is empty', text)

    def test_plan(self):
        status, text, asked = self.run_('--plan', stays={'volume-2': 'why'})
        self.assertEqual((3, ['plan']), (status, asked))
        for part in ('volume-1', 'other', 'volume-2', 'why'):
            self.assertIn(part, text)

    def test_cancel(self):
        status, text, asked = self.run_('--cancel')
        self.assertEqual((0, ['cancel']), (status, asked))
        self.assertIn('is offered again', text)

    def test_json(self):
        _, text, _ = self.run_('--format=json', stays={'volume-2': 'why'})
        self.assertEqual(
            {
                'moves': {},
                'stays': {'volume-2': 'why'},
                'claims': {'server': 2},
            },
            json.loads(text),
        )

    def test_interrupted(self):
        with mock.patch.object(
            Drainer, 'drain', side_effect=KeyboardInterrupt
        ):
            status, text, _ = self.run_()
        self.assertEqual(130, status)
        self.assertIn('--cancel', text)
