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

import fixtures
import testtools
from hypothesis import given
from hypothesis import strategies as st

from nova_diskplacer import exception
from nova_diskplacer.conf import agent
from nova_diskplacer.host import hdparm
from tests.fakes import hdparm as fake_hdparm


def seconds_of(code):
    """Return the timeout of a code, by the table in hdparm(8)."""
    special = {252: 21 * 60, 255: 21 * 60 + 15}
    return special.get(code) or (
        code * 5 if code <= 240 else (code - 240) * 30 * 60
    )


CODES = [*range(1, 253), 255]


class StandbyCodeTest(testtools.TestCase):
    @given(st.integers(1, hdparm.MAX_SECONDS))
    def test_the_shortest_that_is_long_enough(self, seconds):
        shortest = min(
            timeout for timeout in map(seconds_of, CODES) if timeout >= seconds
        )
        code = hdparm.standby_code(seconds)
        self.assertIn(code, CODES)
        self.assertEqual(shortest, seconds_of(code))

    @given(st.integers().filter(lambda one: not 1 <= one <= 19800))
    def test_what_no_disk_has(self, seconds):
        error = self.assertRaises(ValueError, hdparm.standby_code, seconds)
        self.assertIn(f'{seconds} s is not 1 to 19800 s', str(error))

    def test_the_option_allows_what_disks_have(self):
        (option,) = (
            one for one in agent.OPTS if one.name == 'spindown_timeout'
        )
        self.assertEqual(hdparm.MAX_SECONDS, option.type.max)


class CommandTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.hdparm = self.useFixture(fake_hdparm.FakeHdparm())

    def test_states(self):
        for state, asleep in (
            ('active/idle', False),
            ('standby', True),
            ('sleeping', True),
        ):
            self.hdparm.says(sda=state)
            self.assertEqual(asleep, hdparm.in_standby('sda'))

    def test_timeout(self):
        hdparm.set_standby('sda', 241)
        self.assertEqual(['-q -S 241 /dev/sda'], self.hdparm.calls())

    def test_a_virtual_disk(self):
        for status in (0, 22):
            self.hdparm.says(status, vda='unknown')
            error = self.assertRaises(
                exception.DiskError, hdparm.in_standby, 'vda'
            )
            self.assertIn('hdparm -C /dev/vda:', str(error))
            self.assertIn('unknown', str(error))

    def test_a_disk_that_refuses(self):
        self.hdparm.says(5)
        error = self.assertRaises(
            exception.DiskError, hdparm.set_standby, 'sda', 1
        )
        self.assertIn('HDIO_DRIVE_CMD(setidle) failed', str(error))

    def test_no_hdparm(self):
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/nonexistent'))
        error = self.assertRaises(
            exception.DiskError, hdparm.in_standby, 'sda'
        )
        self.assertIn('hdparm: ', str(error))
