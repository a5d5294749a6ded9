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


"""README's commands in README's order, word for word.

The cloud has its own names, and disks and processors that are smaller: only
these words differ (``DIFFERENT``). What it did when it started, installing and
preparing, is left out (``DONE``).
"""

import os
import pathlib
import re
import shlex

from nova_diskplacer import exception
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from tests.e2e import base
from tools.minicloud import cloud as clouds

README = pathlib.Path(__file__).parents[2] / 'README.rst'
_CONSOLE = re.compile(
    r'^\.\. code-block:: console\n\n((?:   .*\n|\n)+)', re.MULTILINE
)
_COMMAND = re.compile(r'^   \S*[$#] ((?:.*\\\n)*.*)$', re.MULTILINE)

DONE = ('pip', 'diskplacer-agent', 'diskplacer-manage disk prepare')
DIFFERENT = (
    ('type create vdisk ', 'type create readme '),
    ('volume_type=vdisk ', 'volume_type=readme '),
    # the one with hard disks
    ('backend_name=vdisk ', 'backend_name=vdisk-hdd '),
    ('--vcpus 4 --ram 16384 --disk 20', '--vcpus 1 --ram 128 --disk 1'),
    ('vdisk_gb=100', 'vdisk_gb=1'),
    ('--image debian-12', f'--image {clouds.IMAGE}'),
    ('--network private', '--no-network'),
    # what runs a command for a host adds its own
    ('--config-file /etc/nova-diskplacer/nova-diskplacer.conf ', ''),
)
WEIGHTS = '\n[diskplacer_weights]\nmode = on\n'


def can_weigh():
    """Return whether this machine has I/O in cgroup v2."""
    try:
        cgroups.hierarchy()
    except exception.ContentionError:
        return False
    return True


CAN_WEIGH = can_weigh()


def commands():
    """Return the commands of the section on use, a line each."""
    section = README.read_text().partition('\nUse it\n')[2]
    section = section.partition('\nRead on\n')[0]
    found = []
    for text in _COMMAND.findall(''.join(_CONSOLE.findall(section))):
        line = ' '.join(text.replace('\\\n', ' ').split())
        for ours, theirs in DIFFERENT:
            line = f'{line} '.replace(ours, theirs).strip()
        found.append(line)
    return found


class ReadmeTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.config = self.cloud.state.host_dir(self.host) / 'diskplacer.conf'
        self.before = self.config.read_text()
        self.addCleanup(self.discard_flavor)
        self.addCleanup(self.set_weights, '')
        # servers go before what they are made of
        self.addCleanup(self._clean)

    def discard_flavor(self):
        for command in (
            'flavor delete analytics',
            'volume type delete readme',
        ):
            self.cloud.attempt('openstack', *command.split())

    def set_weights(self, text):
        self.config.write_text(self.before + text)
        self.cloud.restart(f'diskplacer-agent@{self.host}')
        self.eventually(
            'the agent',
            lambda: (
                not self.cloud.run_manage(
                    self.host, 'top', '--once'
                ).returncode
            ),
        )

    def run_command(self, line):
        """Run a line as an operator does; returns what it prints."""
        program, *words = shlex.split(line)
        if program == 'openstack':
            return self.cloud.run(program, *words)
        if program == 'diskplacer-status':
            found = self.cloud.upgrade_check()
            self.assertEqual([], [one for one in found if one['result'] > 1])
            return str(found)
        self.assertEqual('diskplacer-manage', program)
        return self.cloud.manage(self.host, *words)

    def check_weights(self, line):
        """Check what ``weights check`` says of the server's disks."""
        done = self.cloud.run_manage(self.host, *line.split()[1:])
        if not CAN_WEIGH:
            self.assertIn('no cgroup v2 with the io controller', done.stderr)
            return
        for uuid in self.hard_disks:
            (row,) = (one for one in done.stdout.splitlines() if uuid in one)
            self.assertIn('bfq', row)

    def check_top(self, line):
        """Check what ``top`` shows of the server's disks."""
        shown = self.run_command(f'{line} --once')
        self.assertNotIn('weights do nothing', shown)
        if not CAN_WEIGH:
            return
        rows = [
            row
            for row in shown.splitlines()
            if row[:8] in {uuid[:8] for uuid in self.hard_disks}
        ]
        self.assertEqual(4, len(rows), shown)
        for row in rows:
            self.assertTrue(row.rstrip().endswith('bfq'), shown)

    def schedulers(self):
        """Return the schedulers of the disks of the server."""
        root = self.cloud.state.disk_root(self.host)
        found = set()
        for uuid in self.hard_disks:
            number = os.stat(root / uuid).st_dev
            link = f'/sys/dev/block/{os.major(number)}:{os.minor(number)}'
            name = os.path.basename(os.path.realpath(link))
            found.add(block_queue.read(name).values['scheduler'])
        return found

    def test_steps(self):
        lines = [one for one in commands() if not one.startswith(DONE)]
        self.assertIn(WEIGHTS, README.read_text().replace('\n   ', '\n'))
        *first, create, listed, check, top = lines
        self.assertEqual(
            [
                'openstack volume type create',
                'openstack --os-compute-api-version 2.86 flavor',
                'openstack vdisk profile apply',
                'diskplacer-status upgrade check',
            ],
            [' '.join(line.split()[:4]) for line in first],
        )
        for line in first:
            self.run_command(line)
        self.run_command(create)
        (server,) = self.api.get('compute', '/servers?name=etl-1')['servers']
        self.api.wait_server(server['id'])
        self.hard_disks = set(self.disks_of(server['id']).values())
        self.assertEqual(4, len(self.hard_disks))
        self.assertIn(' etl-1 ', self.run_command(listed))
        # what the profile prefers
        self.eventually('tuned', lambda: self.schedulers() == {'kyber'})
        self.set_weights(WEIGHTS)
        # what weights need, where there can be any
        wanted = {'bfq' if CAN_WEIGH else 'kyber'}
        self.eventually('BFQ', lambda: self.schedulers() == wanted)
        self.assertEqual('diskplacer-manage weights check', check)
        self.check_weights(check)
        self.assertEqual('diskplacer-manage top', top)
        self.check_top(top)
        # and back
        self.set_weights('')
        self.eventually('restored', lambda: self.schedulers() == {'kyber'})
