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


import email
import os
import pathlib
import subprocess

import fixtures
from oslotest import base

from nova_diskplacer.guest import config
from nova_diskplacer.guest import frameworks
from nova_diskplacer.guest import vendor_data

# Stands in for the script of the guest.
SCRIPT = """#!/usr/bin/python3
From = None  # $HOME `id` \\
import sys
with open(sys.argv[0] + '.log', 'a') as log:
    print(sys.argv[1:], From, file=log)
"""


def parts(text):
    """Return the content types and the contents of the parts."""
    return [
        (part.get_content_type(), part.get_payload(decode=True).decode())
        for part in email.message_from_string(text).get_payload()
    ]


class VendorDataTest(base.BaseTestCase):
    def test_contains_the_script_of_the_user_data(self):
        for framework in frameworks.FRAMEWORKS:
            values = config.settings(framework, count=4, gib=100)
            (_, early), (_, final) = parts(vendor_data.vendor_data(values))
            self.assertEqual(1, early.count(config.script(values)))
            self.assertIn(config.PATH, early)
            self.assertIn(config.PATH, final)

    def test_parts_that_no_user_data_replaces(self):
        (first, early), (second, final) = parts(
            vendor_data.vendor_data(config.settings('plain'))
        )
        self.assertEqual('text/cloud-boothook', first)
        self.assertTrue(early.startswith('#cloud-boothook\n#!/bin/sh\n'))
        self.assertEqual('text/x-shellscript', second)
        self.assertTrue(final.startswith('#!/bin/sh\n'))

    def test_runs_the_script_twice(self):
        directory = self.useFixture(fixtures.TempDir()).path
        path = pathlib.Path(directory, 'sbin', 'guest')
        self.useFixture(fixtures.MockPatchObject(config, 'PATH', str(path)))
        self.useFixture(
            fixtures.MockPatchObject(config, 'script', lambda _: SCRIPT)
        )
        text = vendor_data.vendor_data({})
        for _, content in parts(text):
            hook = pathlib.Path(directory, 'hook')
            hook.write_text(content.removeprefix('#cloud-boothook\n'))
            hook.chmod(0o700)
            subprocess.run([hook], check=True)
        self.assertEqual(SCRIPT, path.read_text())
        self.assertEqual(0o755, path.stat().st_mode & 0o777)
        self.assertEqual(
            "['early'] None\n[] None\n",
            pathlib.Path(f'{path}.log').read_text(),
        )
        self.assertEqual(
            ['guest', 'guest.log'], sorted(os.listdir(path.parent))
        )
