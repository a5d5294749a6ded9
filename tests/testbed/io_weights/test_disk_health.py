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

"""What disks with SMART say, also to an agent with the rights of its unit."""

import json
import os
import pathlib
import sys

import fixtures
import testtools

from nova_diskplacer.host.devices import Device
from nova_diskplacer.monitor import disk_health
from nova_diskplacer.monitor import smart
from tests import configured
from tests import systemd
from tests.testbed import io_weights
from tools.testbed import machine

UNIT = 'diskplacer-agent.service'
# What an agent does, and what only one that goes on does.
LASTING = ('Type', 'ExecStopPost', 'Restart', 'RestartSec', 'WatchdogSec')
PATIENCE = 600

SCRIPT = """
import json, sys
from nova_diskplacer import exception
from nova_diskplacer.monitor import smart
found = {}
for name in sys.argv[2:]:
    try:
        found[name] = smart.read(name).temperature
    except exception.DiskError as error:
        found[name] = str(error)
with open(sys.argv[1], 'w') as stream:
    json.dump(found, stream)
"""


def device(bus):
    """Return the disk behind a bus."""
    (link,) = (
        machine.link(index, disk)
        for index, disk in enumerate(io_weights.DISKS)
        if disk.bus == bus
    )
    number = os.stat(link).st_rdev
    return Device(
        bus,
        os.path.basename(os.path.realpath(link)),
        f'{os.major(number)}:{os.minor(number)}',
        rotational=False,
    )


class SmartTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.nvme, self.sata = device('nvme'), device('sata')

    def test_read(self):
        nvme, sata = smart.read(self.nvme.name), smart.read(self.sata.name)
        # as QEMU has them
        self.assertEqual((True, 50), (nvme.passed, nvme.temperature))
        self.assertEqual({'media errors': 0}, nvme.errors)
        self.assertEqual((True, 31), (sata.passed, sata.temperature))
        self.assertEqual({'Reallocated_Sector_Ct (SMART 5)': 0}, sata.errors)
        for index, disk in enumerate(io_weights.DISKS):
            found = {'nvme': nvme, 'sata': sata}.get(disk.bus)
            if found:
                self.assertEqual(machine.serial(index, disk), found.serial)

    def test_watched(self):
        conf = self.useFixture(configured.Options()).conf
        conf.set_override('warn_temperature', 45, 'diskplacer_monitor')
        known = disk_health.HealthMonitor(conf)
        known.poll({one.uuid: one for one in (self.nvme, self.sata)})
        self.assertEqual(50, known.temperature('nvme'))
        self.assertEqual(31, known.temperature('sata'))
        (warning,) = known.warnings.for_disk('nvme').values()
        self.assertIn('warn_temperature=45', warning)
        self.assertEqual({}, known.warnings.for_disk('sata'))

    def ask(self, *capabilities):
        """Return what each disk says to a process with the unit's rights.

        :param capabilities: what it has beside.
        """
        path = self.useFixture(fixtures.TempDir()).path
        pathlib.Path(path, 'ask.py').write_text(SCRIPT)
        command = [sys.executable, f'{path}/ask.py', f'{path}/said']
        command += [self.nvme.name, self.sata.name]

        def change(name, value):
            if name == 'ExecStart':
                return ' '.join(command)
            return None if name in LASTING else value

        systemd.write_unit(
            path,
            UNIT,
            change,
            'Type=oneshot',
            'RemainAfterExit=yes',
            f'CapabilityBoundingSet={" ".join(capabilities)}',
        )
        with systemd.Systemd(path, UNIT) as running:
            running.wait('active', PATIENCE)
        return json.loads(pathlib.Path(path, 'said').read_text())

    def test_rights(self):
        said = self.ask()
        self.assertIn('Permission denied', said[self.nvme.name])
        self.assertIn('for SATA disks CAP_SYS_RAWIO', said[self.sata.name])
        said = self.ask('CAP_SYS_RAWIO')
        self.assertIn('Permission denied', said[self.nvme.name])
        self.assertEqual(31, said[self.sata.name])
        said = self.ask('CAP_SYS_ADMIN')
        self.assertEqual(50, said[self.nvme.name])
        self.assertIn('for SATA disks CAP_SYS_RAWIO', said[self.sata.name])
