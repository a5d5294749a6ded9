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
"""What cinder-rootwrap lets the driver's user start as root."""

import configparser
import pathlib

import testtools
from oslo_rootwrap import filters

TOP = pathlib.Path(__file__).parents[3]
FILE = TOP / 'etc' / 'cinder' / 'rootwrap.d' / 'vdisk-mapper.filters'


class RootwrapTestCase(testtools.TestCase):
    def test_configuration_files_below_etc_only(self):
        parser = configparser.RawConfigParser()
        parser.read(FILE)
        for _, line in parser.items('Filters'):
            _, *arguments = (part.strip() for part in line.split(','))
            one = filters.RegExpFilter(*arguments)
            context = arguments[arguments.index('--privsep_context') + 1]
            for path, allowed in (
                ('/etc/cinder/cinder.conf', True),
                ('/etc/../tmp/y', False),
                ('/etc/x/../../tmp/y', False),
                ('/etc/x/..', False),
                ('/tmp/y', False),
            ):
                command = [
                    *('privsep-helper', '--config-file', path),
                    *('--privsep_context', context),
                    *('--privsep_sock_path', '/tmp/x/privsep.sock'),
                ]
                self.assertEqual(allowed, one.match(command), path)
