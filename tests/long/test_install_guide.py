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

"""The installation guide, followed word for word on machines of its own.

A machine of Debian unstable has the services of a controller and of a compute
host: it installs the Debian packages and follows all pages. Another one
follows the steps of the Python package, and README's that install it.
"""

import pathlib
import re
import shutil
import sys

import testtools

from tests import loops
from tests.guide import following
from tests.guide import machine
from tests.guide import pages
from tests.guide import terminal
from tests.long import test_readme
from tests.packaging import base

DISKS = '/dev/sdb', '/dev/sdc', '/dev/sdd', '/dev/sde'
DISK_GB = 300

#: where the Debian packages are built: the checkout
BUILD = ('tools/debian.sh sid',)

#: sections of packages.rst for a Python package
PYTHON = (
    'Environments of controllers',
    'Environments of hosts with disks',
    'systemd units in a virtual environment',
    'rootwrap filter',
)

#: sections that are not followed: the machines have no fio, and their disks
#: are sparse files
LEFT_OUT = ('Measure the disks',)

#: what the pages leave to the reader, and the stand-in for Neutron, which has
#: no networks
WORDS = (
    ('FLAVOR', 'm1.tiny'),
    ('DISK_UUID', '$(ls /var/lib/diskplacer/disks | head -n 1)'),
    ('--network private', '--no-network'),
)

#: devices of vdisks: those of Nova's fake driver, and those of the page
NAMES = tuple((f'sd{one}→', f'vd{one}→') for one in 'bcde')

#: what commands ask for
TYPED = (
    ('--password-prompt', ['DISKPLACER_PASS'] * 2),
    ('apt install', ['y']),
)


def say(text):
    """Tell how far the test is: standard output is the test runner's."""
    print(text, file=sys.stderr, flush=True)


def all_steps():
    """Return the steps of the guide, in its order."""
    return [
        step
        for name in pages.PAGES
        for step in pages.read(name)
        if step.section not in LEFT_OUT
    ]


def is_built_here(step):
    return [command.line for command in step.commands] == list(BUILD)


class Checkout:
    """This checkout, as a machine that builds the packages."""

    root = pathlib.Path('/')

    def run(self, script, answers=()):
        return terminal.run(['bash', '-c', script], answers, cwd=base.TOP)


@loops.needs_root
class GuideTest(testtools.TestCase):
    def follow(self, follower, steps):
        for step in steps:
            say(f'-- {step.name}')
            follower.follow(step)

    def test_debian_packages(self):
        steps = [step for step in all_steps() if step.section not in PYTHON]
        (build,) = filter(is_built_here, steps)
        self.follow(following.Follower(Checkout()), [build])
        disks = [
            self.useFixture(loops.LoopDevice(DISK_GB)).device for _ in DISKS
        ]
        there = self.useFixture(machine.Machine('openstack'))
        for device, name in zip(disks, DISKS, strict=True):
            there.add_disk(device, name)
        say('-- the cloud')
        status, printed = there.run('./cloud.sh')
        self.assertEqual(0, status, printed)
        follower = following.Follower(
            there,
            words=WORDS,
            names=[*NAMES, *zip(disks, DISKS, strict=True)],
            typed=TYPED,
        )
        self.follow(follower, [step for step in steps if step is not build])

    def test_python_package(self):
        there = self.useFixture(
            machine.Machine(
                'python',
                PIP_NO_INDEX='1',
                PIP_FIND_LINKS='/root/wheels',
            )
        )
        self.download(there.root / 'root/wheels')
        shutil.copy(
            base.TOP / 'tools/lib/constraints.txt',
            there.root / 'root/upper-constraints.txt',
        )
        # the services' own environments, which the guide takes for granted
        status, printed = there.run(
            'set -e\n'
            'python3 -m venv /opt/nova\n'
            'python3 -m venv /opt/cinder\n'
            'mkdir -p /etc/cinder/rootwrap.d\n'
        )
        self.assertEqual(0, status, printed)
        steps = [step for step in all_steps() if step.section in PYTHON]
        self.assertEqual({*PYTHON}, {step.section for step in steps})
        self.follow(following.Follower(there), steps)
        for line in self.readme_lines():
            status, printed = there.run(
                'set -e\n'
                'rm -rf /opt/readme\n'
                'python3 -m venv /opt/readme\n'
                f'PATH=/opt/readme/bin:$PATH\n{line}\n'
                'diskplacer-manage --help\n'
            )
            self.assertEqual(0, status, printed)

    def readme_lines(self):
        """Return README's lines that install the package."""
        found = [
            line
            for line in test_readme.commands()
            if re.match(r'pip install ', line)
        ]
        self.assertEqual(2, len(found))
        return found

    def download(self, directory):
        """Download what the package and all its extras of the guide need."""
        (wheel,) = base.build().glob('*.whl')
        extras = 'scheduler,api,manage,driver,client,agent,libvirt'
        # the headers are of the same release there
        libvirt = base.run('pkg-config', '--modversion', 'libvirt').strip()
        base.run(
            *(sys.executable, '-m', 'pip', 'download', '-q'),
            *('-c', base.TOP / 'tools/lib/constraints.txt'),
            *('-c', base.TOP / 'tools/lib/openstack.txt'),
            *('-d', directory, f'{wheel}[{extras}]'),
            f'libvirt-python<={libvirt}',
            # they build libvirt-python
            *('setuptools', 'wheel'),
        )
