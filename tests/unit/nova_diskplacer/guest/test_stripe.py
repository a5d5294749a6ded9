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

"""The stripe of a server whose disks and commands are in memory."""

import contextlib
import io
import os
import shutil
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer.guest import config
from nova_diskplacer.guest import script
from nova_diskplacer.guest import stripe
from nova_diskplacer.guest import system

SERIALS = tuple(f'53d1f9d2-0c4e-4a52-{one}' for one in '012345')
DISKS = dict(
    zip(SERIALS, ('vdb', 'vdc', 'vdd', 'vde', 'vdf', 'vdg'), strict=True)
)
MD = 'md127'
GIB = 1 << 30


class Killed(BaseException):
    """The server has crashed."""


class Server:
    """A server; ``signatures`` are what blkid reports of its devices.

    ``steps`` is the number of changes until it crashes, None for never. A
    crash in ``mdadm --create`` leaves the first disks with a superblock.
    """

    def __init__(self, count=3, gib=1):
        self.disks = {one: DISKS[one] for one in SERIALS[:count]}
        self.signatures = {}
        self.sizes = dict.fromkeys(DISKS.values(), gib * GIB)
        self.content = ''
        self.array = ()
        self.active = False
        self.mounted = set()
        self.steps = None
        self.commands = []

    def step(self):
        if self.steps is not None:
            if not self.steps:
                raise Killed
            self.steps -= 1

    def boot(self, assembles=True):
        """Boot; udev assembles what it can."""
        self.steps = None
        self.mounted.clear()
        self.array, self.active = (), False
        members = self.members()
        numbers = {self.signatures[name]['UUID'] for name in members}
        if assembles and members:
            self.array = members
            (number,) = numbers
            self.active = number == stripe.stripe_uuid(
                serial
                for serial, name in self.disks.items()
                if name in members
            )

    def members(self):
        return tuple(
            name
            for name in self.disks.values()
            if self.signatures.get(name, {}).get('TYPE') == stripe.MEMBER
        )

    # what replaces functions of the module system

    def read_signature(self, device):
        name = os.path.basename(device)
        if name == MD:
            assert self.active
        return dict(self.signatures.get(name, {}))

    def in_use(self, device):
        return os.path.basename(device) in self.array

    def holders(self, name):
        return [MD] if name in self.array else []

    def read(self, path):
        if path.endswith('/md/array_state'):
            return 'clean\n' if self.active else 'inactive\n'
        if path.endswith('/size'):
            return str(self.sizes[path.split('/')[3]] // 512)
        if path.endswith('/dev'):
            return '9:127\n'
        with open(path) as stream:
            return stream.read()

    def replace(self, path, text):
        self.step()
        with open(path, 'w') as stream:
            stream.write(text)

    def make_filesystem(self, device, own, kind, overwrite):
        assert device == f'/dev/{MD}' and self.active
        assert overwrite == (MD in self.signatures)
        for label in (system.UNFINISHED, system.FINISHED):
            self.step()
            self.signatures[MD] = {'TYPE': kind, 'UUID': own, 'LABEL': label}
        self.content = own

    def run(self, *command, allowed=(0,)):
        self.commands.append(command)
        name, *arguments = command
        if name == 'mdadm':
            self.mdadm(arguments)
        elif name == 'mount':
            assert self.active
            self.step()
            self.mounted.add(arguments[0])
        return 'xfs\n' if name == 'findmnt' else ''

    def mdadm(self, arguments):
        names = tuple(
            os.path.basename(one)
            for one in arguments
            if one.startswith('/dev/vd')
        )
        options = dict(
            one.lstrip('-').partition('=')[::2] for one in arguments
        )
        if 'stop' in options:
            self.step()
            self.array, self.active = (), False
            return
        if set(names) & set(self.array):
            raise system.Problem('mdadm: busy')
        if 'create' in options:
            assert len(names) == int(options['raid-devices'])
            for name in names:
                before = self.signatures.get(name, {})
                assert before.get('TYPE') in (None, stripe.MEMBER)
                self.step()
                self.signatures[name] = {
                    'TYPE': stripe.MEMBER,
                    'UUID': options['uuid'],
                }
        else:
            assert set(names) == set(self.members())
        self.step()
        self.array, self.active = names, True


class StripeTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def start(self, server=None):
        self.server = server or Server()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.fstab = f'{self.directory}/fstab'
        with open(self.fstab, 'w') as stream:
            stream.write('/dev/vda1 / ext4 defaults 0 1\n')
        self.point = f'{self.directory}/data/stripe'

    def settings(self, **values):
        wanted = config.settings(
            'plain',
            **{'count': 3, 'gib': 1, 'layout': 'stripe', **values},
        )
        # no temporary directory fits the rules for paths
        return {**wanted, 'root': f'{self.directory}/data'}

    @contextlib.contextmanager
    def patched(self):
        server = self.server
        names = ('run', 'read', 'replace', 'read_signature', 'in_use',
                 'holders', 'make_filesystem')  # fmt: skip
        status = os.stat('/')
        real = os.stat

        def stat(path, *arguments, **options):
            if path == self.point:
                fields = list(status)
                fields[2] = os.makedev(9, 127)
                return os.stat_result(fields)
            return real(path, *arguments, **options)

        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(
                    mock.patch.object(system, name, getattr(server, name))
                )
            for target, name, value in (
                (system, 'vdisks', lambda: dict(server.disks)),
                (script, 'FSTAB', self.fstab),
                (os.path, 'ismount', server.mounted.__contains__),
                (shutil, 'which', lambda name: f'/sbin/{name}'),
                (os, 'stat', stat),
            ):
                stack.enter_context(mock.patch.object(target, name, value))
            self.said = stack.enter_context(
                contextlib.redirect_stdout(io.StringIO())
            )
            yield

    def run_script(self, **values):
        """Run the script once and return its problems."""
        with self.patched():
            guest = script.LAYOUTS['stripe'](self.settings(**values), False)
            guest.run()
        return guest.problems

    def fstab_lines(self):
        with open(self.fstab) as stream:
            return stream.read().splitlines()[1:]

    def assert_served(self, serials=SERIALS[:3]):
        names = {self.server.disks[serial] for serial in serials}
        self.assertEqual(names, set(self.server.members()))
        self.assertEqual({self.point}, self.server.mounted)
        number = stripe.stripe_uuid(serials)
        own = system.filesystem_uuid(number)
        self.assertEqual(
            [f'UUID={own} {self.point} xfs noatime,nofail 0 0'],
            self.fstab_lines(),
        )

    def created(self):
        return [one for one in self.server.commands if '--create' in one]

    def test_made_once(self):
        for _ in range(2):
            self.assertEqual([], self.run_script())
            self.assert_served()
        self.server.boot()
        self.assertEqual([], self.run_script())
        self.assert_served()
        (command,) = self.created()
        self.assertIn('--level=0', command)
        self.assertEqual(('/dev/vdb', '/dev/vdc', '/dev/vdd'), command[-3:])

    def test_without_udev(self):
        self.run_script()
        self.server.boot(assembles=False)
        self.assertEqual([], self.run_script())
        self.assert_served()
        self.assertEqual(1, len(self.created()))

    def test_a_new_root_disk(self):
        self.run_script()
        content = self.server.content
        with open(self.fstab, 'w') as stream:
            stream.write('/dev/vda1 / ext4 defaults 0 1\n')
        # the devices have other names
        self.server.disks = dict(
            zip(SERIALS[:3], ('vdc', 'vdb', 'vdd'), strict=True)
        )
        self.server.boot()
        self.assertEqual([], self.run_script())
        self.assert_served()
        self.assertEqual(content, self.server.content)
        self.assertEqual(1, len(self.created()))

    @given(st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=8))
    def test_crashes(self, crashes):
        """Whenever the server crashes, the stripe is served in the end."""
        self.start()
        for steps, assembles in crashes:
            self.server.steps = steps
            with contextlib.suppress(Killed):
                self.run_script()
            finished = (
                self.server.signatures.get(MD, {}).get('LABEL')
                == system.FINISHED
            )
            self.server.boot(assembles)
            if finished:
                self.server.content = 'data'
        before = self.server.content
        self.assertEqual([], self.run_script())
        self.assert_served()
        if before == 'data':
            self.assertEqual('data', self.server.content)

    def test_every_crash(self):
        """The walk reaches each step of the first run."""
        reached = 0
        for steps in range(99):
            self.start()
            self.server.steps = steps
            try:
                self.run_script()
            except Killed:
                reached += 1
                self.server.boot()
                self.assertEqual([], self.run_script())
                self.assert_served()
                continue
            break
        # three superblocks, a start, a filesystem and its label, fstab, mount
        self.assertEqual(8, reached)

    def test_begun_on_some_disks(self):
        self.server.steps = 2
        with contextlib.suppress(Killed):
            self.run_script()
        self.assertEqual(('vdb', 'vdc'), self.server.members())
        self.server.boot()
        self.assertFalse(self.server.active)
        self.assertEqual([], self.run_script())
        self.assertIn(('mdadm', '--stop', f'/dev/{MD}'), self.server.commands)
        self.assert_served()

    def test_a_disk_that_is_missing(self):
        """Nothing is made anew, whatever else is blank."""
        self.run_script()
        before = dict(self.server.signatures)
        del self.server.disks[SERIALS[1]]
        self.server.disks[SERIALS[3]] = DISKS[SERIALS[3]]
        self.server.boot()
        problems = self.run_script()
        self.assertIn('stripe: disks of it are missing', problems)
        self.assertEqual(before, self.server.signatures)

    def test_a_disk_that_is_missing_from_a_new_root_disk(self):
        self.run_script()
        before = dict(self.server.signatures)
        with open(self.fstab, 'w') as stream:
            stream.write('')
        del self.server.disks[SERIALS[1]]
        self.server.boot()
        self.assertIn(
            'stripe: 0 of 3 vdisks are blank: all are needed to make it',
            self.run_script(),
        )
        self.assertEqual(before, self.server.signatures)

    def test_a_disk_that_comes_later(self):
        self.run_script()
        self.server.disks[SERIALS[3]] = DISKS[SERIALS[3]]
        self.assertEqual([], self.run_script())
        self.assert_served()
        self.assertNotIn(DISKS[SERIALS[3]], self.server.signatures)

    def test_data_of_others(self):
        for signature in (
            {'TYPE': 'ext4', 'UUID': 'x'},
            {'PTTYPE': 'gpt'},
            {'TYPE': 'unknown'},
            {'TYPE': stripe.MEMBER, 'UUID': 'of another array'},
        ):
            self.start()
            self.server.signatures['vdc'] = signature
            self.assertEqual(
                'stripe: 2 of 3 vdisks are blank: all are needed to make it',
                self.run_script()[0],
            )
            self.assertIn('left alone', self.said.getvalue())
            self.assertEqual({'vdc': signature}, self.server.signatures)
            self.assertEqual([], self.created())

    def test_others_beside_the_stripe(self):
        """A disk with data, one of another size, and one in use."""
        self.start(Server(count=6))
        self.server.signatures['vde'] = {'TYPE': 'ext4', 'UUID': 'x'}
        self.server.sizes['vdf'] = 2 * GIB
        self.server.in_use = lambda device: device == '/dev/vdg'
        self.assertEqual([], self.run_script())
        self.assert_served()

    def test_volumes_that_are_named(self):
        volumes = tuple(f'{one}a4f-3f0f6f1f7a10' for one in SERIALS[1:3])
        self.assertEqual([], self.run_script(volumes=volumes))
        self.assert_served(SERIALS[1:3])

    def test_a_filesystem_of_others_on_the_array(self):
        self.run_script()
        self.server.signatures[MD] = {'TYPE': 'ext4', 'UUID': 'x'}
        with open(self.fstab, 'w') as stream:
            stream.write('')
        self.server.boot()
        self.assertIn(
            f'stripe: /dev/{MD} has a signature: ext4', self.run_script()
        )
        self.assertEqual('x', self.server.signatures[MD]['UUID'])

    def test_no_mdadm(self):
        with mock.patch.object(self.server, 'run') as run:
            run.return_value = ''
            with (
                self.patched(),
                mock.patch.object(shutil, 'which', return_value=None),
            ):
                guest = script.LAYOUTS['stripe'](self.settings(), True)
                guest.run()
        self.assertEqual(
            'stripe: mdadm is not installed in this server', guest.problems[0]
        )
        self.assertEqual({}, self.server.signatures)


class IdentityTest(base.BaseTestCase):
    def test_never_changes(self):
        # it is on disks
        self.assertEqual(
            '1f673f36-1b24-53ae-a08e-2fca64ff6387',
            stripe.stripe_uuid(reversed(SERIALS[:2])),
        )
