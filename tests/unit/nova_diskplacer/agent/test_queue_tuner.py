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
import dataclasses
import errno
import os
import shutil
import tempfile

import fixtures
import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.agent import queue_tuner
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import block_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import saved_settings
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy
from tests.fakes import disks as fake_disks

UUID = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'
OTHER = '1b5d8b51-5dc3-4b6d-9f4f-7b5ce3c6e402'
DEFAULTS = {
    'scheduler': 'none',
    'nr_requests': '128',
    'wbt_lat_usec': '2000',
    'max_sectors_kb': '1280',
    'read_ahead_kb': '128',
    'nomerges': '0',
    'rq_affinity': '1',
}
PROFILES = {
    'deep': definitions.Queue(('bfq',), nr_requests=512, read_ahead_kb=4096),
    'plain': definitions.Queue(('mq-deadline',), wbt_lat_usec=0),
    'small': definitions.Queue(max_sectors_kb=64, nomerges=2, rq_affinity=2),
    'ahead': definitions.Queue(read_ahead_kb=1022),
    'nothing': definitions.Queue(),
    # more than the device itself has room for
    'crowded': definitions.Queue(('none',), nr_requests=1024),
    'roomy': definitions.Queue(('mq-deadline',), nr_requests=1024),
}


class Killed(BaseException):
    """The agent was killed at this point."""


class Kernel:
    """Queues that depend on each other as those of Linux 6.18 do."""

    def __init__(self):
        self.queues = {}
        self.sequences = {}
        self.schedulers = ['none', 'mq-deadline', 'kyber', 'bfq']
        self.modules = []
        # how many requests the devices themselves have room for
        self.depth = 128
        self.shared = set()
        self.writes = []
        # settings whose next write finds the kernel busy
        self.busy = set()

    def add(self, device):
        """Plug a device in, which is new to the kernel."""
        self.queues[device] = dict(DEFAULTS)
        self.sequences[device] = str(len(self.writes) + len(self.sequences))

    def exclusive_device(self, device):
        name = os.path.basename(device)
        if name in self.shared:
            raise exception.DiskError(f'{name} is shared')
        return name

    def diskseq(self, device, sys=None):
        if device not in self.queues:
            raise FileNotFoundError(errno.ENOENT, 'gone', device)
        return self.sequences[device]

    def read(self, device):
        if device not in self.queues:
            raise FileNotFoundError(errno.ENOENT, 'gone', device)
        return block_queue.Queue(
            device,
            self.sequences[device],
            tuple(self.schedulers),
            self.depth,
            dict(self.queues[device]),
        )

    def write(self, device, setting, value):
        values = self.queues[device]
        self.writes.append((device, setting, value))
        if setting in self.busy:
            self.busy.remove(setting)
            raise OSError(errno.EBUSY, 'Device or resource busy')
        if setting == 'scheduler':
            if value in self.modules:
                self.schedulers.append(value)
                self.modules.remove(value)
            if value not in self.schedulers:
                raise OSError(errno.EINVAL, 'Invalid argument')
            least = 2 * min(self.depth, 128)
            depth = self.depth if value == 'none' else least
            values['nr_requests'] = str(depth)
            if value == 'bfq':
                values['wbt_lat_usec'] = '0'
        elif setting == 'nr_requests':
            limit = self.depth if values['scheduler'] == 'none' else 2048
            if int(value) > limit:
                raise OSError(errno.EINVAL, 'Invalid argument')
        elif setting == 'max_sectors_kb':
            values['read_ahead_kb'] = '2560'
        elif setting == 'read_ahead_kb':
            value = str(int(value) // 4 * 4)
        values[setting] = value


def patch_queues(case, kernel):
    """Have a test use the queues of a kernel, and locks of its own."""
    for function in ('diskseq', 'exclusive_device', 'read', 'write'):
        case.useFixture(
            fixtures.MonkeyPatch(
                f'nova_diskplacer.host.block_queue.{function}',
                getattr(kernel, function),
            )
        )
    case.useFixture(
        fixtures.MonkeyPatch(
            'nova_diskplacer.host.files._lock_directory',
            case.useFixture(fixtures.TempDir()).path,
        )
    )


def make_disk(uuid=UUID, device='/dev/sda'):
    return fake_disks.make_disk(uuid, device=device)


def make_server(profile, uuid=UUID, running=True):
    specs = {} if profile is None else {'diskplacer:profile': profile}
    paths = (f'/disks/{uuid}/vdisks/volume-1',)
    return libvirt_servers.Server(
        f'server-{profile}', 'x', specs, paths, {}, running, False, ''
    )


def make_profiles(directories=()):
    return catalogue.Catalogue(
        definitions.Profile(name, '', '', queue={'hdd': wanted}, priority=rank)
        for rank, (name, wanted) in enumerate(PROFILES.items())
    )


def make_tuner(state, mode='on', weights='off'):
    # what is overridden would be so in all configurations
    path = os.path.join(state, 'agent.conf')
    with open(path, 'w') as stream:
        stream.write(
            f'[diskplacer_agent]\nstate_dir = {state}\nqueue_tuning = {mode}\n'
            f'[diskplacer_weights]\nmode = {weights}\n'
        )
    conf = cfg.ConfigOpts()
    options.register_opts(conf)
    conf([], default_config_files=[path])
    return queue_tuner.QueueTuner(conf)


class TunerTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.kernel = Kernel()
        self.kernel.add('sda')
        patch_queues(self, self.kernel)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.profiles.catalogue.load', make_profiles
            )
        )
        self.state = self.useFixture(fixtures.TempDir()).path
        self.can_weigh = True
        self.useFixture(
            fixtures.MockPatchObject(cgroups, 'hierarchy', self.hierarchy)
        )
        self.tuner = make_tuner(self.state)
        self.disk = make_disk()

    def hierarchy(self):
        if not self.can_weigh:
            raise exception.ContentionError('no cgroup v2')
        return cgroups.Hierarchy('/sys/fs/cgroup')

    def apply(self, *profiles, disks=None):
        servers = [make_server(profile) for profile in profiles]
        self.tuner.apply(servers, [self.disk] if disks is None else disks)

    def changed(self, device='sda'):
        """Return what is not as it was."""
        return {
            name: value
            for name, value in self.kernel.queues[device].items()
            if value != DEFAULTS[name]
        }

    def saved(self):
        return os.listdir(os.path.join(self.state, 'queues'))

    def test_tuned_and_restored(self):
        self.apply('deep')
        self.assertEqual(
            {
                'scheduler': 'bfq',
                'nr_requests': '512',
                'wbt_lat_usec': '0',
                'read_ahead_kb': '4096',
            },
            self.changed(),
        )
        self.assertIn(f'disk {UUID}, for deep', self.log.output)
        self.assertEqual([f'{UUID}.json'], self.saved())
        self.apply()
        self.assertEqual({}, self.changed())
        self.assertEqual([], self.saved())

    def test_weights(self):
        self.tuner = make_tuner(self.state, weights='on')
        bfq = {
            'scheduler': 'bfq', 'nr_requests': '256', 'wbt_lat_usec': '0'
        }  # fmt: skip
        # without servers, and with a profile that states no scheduler
        self.apply()
        self.assertEqual(bfq, self.changed())
        self.apply('ahead')
        self.assertEqual({**bfq, 'read_ahead_kb': '1020'}, self.changed())
        self.assertIn(', for ahead, I/O weights', self.log.output)
        # which excludes bfq
        self.apply('plain')
        self.assertEqual('mq-deadline', self.changed()['scheduler'])
        self.assertNotIn('for plain, I/O weights', self.log.output)
        self.apply()
        self.assertEqual(bfq, self.changed())
        self.apply(disks=[dataclasses.replace(self.disk, medium='ssd')])
        self.assertEqual({}, self.changed())
        self.assertEqual([], self.saved())

    def test_a_host_that_cannot_weigh(self):
        self.can_weigh = False
        self.tuner = make_tuner(self.state, weights='on')
        self.apply()
        self.assertEqual({}, self.changed())
        self.apply('plain')
        self.assertEqual('mq-deadline', self.changed()['scheduler'])

    def test_weights_are_turned_off_again(self):
        for weights in ('off', 'dry_run'):
            self.tuner = make_tuner(self.state, weights='on')
            self.apply()
            self.assertEqual('bfq', self.changed()['scheduler'])
            self.tuner = make_tuner(self.state, weights=weights)
            self.apply()
            self.assertEqual({}, self.changed())

    def test_merging_that_weights_have_changed(self):
        of_weights = bfq_settings.saved_settings_of(self.state)
        changed = saved_settings.DeviceSettings(
            'sda', self.kernel.sequences['sda'], {'nomerges': '0'}
        )
        for is_tuned_before in (False, True):
            self.tuner = make_tuner(self.state, weights='on')
            if is_tuned_before:
                self.apply('small')
                self.assertEqual('2', self.changed()['nomerges'])
            of_weights.save(UUID, changed)
            self.kernel.queues['sda']['nomerges'] = '1'
            for profiles in (('small',), (), ('small',)):
                self.apply(*profiles)
                self.assertEqual('1', self.changed()['nomerges'])
            # weights restore what they have saved
            of_weights.save(UUID, dataclasses.replace(changed, values={}))
            self.kernel.queues['sda']['nomerges'] = '0'
            self.apply('small')
            self.assertEqual('2', self.changed()['nomerges'])
            self.tuner = make_tuner(self.state)
            self.apply()
            self.assertEqual({}, self.changed())
            self.assertEqual([], self.saved())

    def test_weights_where_queues_are_not_tuned(self):
        for mode in ('off', 'dry_run'):
            self.tuner = make_tuner(self.state, mode, weights='on')
            self.apply()
            self.assertEqual({}, self.changed())

    def test_nothing_is_written_twice(self):
        self.apply('deep')
        before = list(self.kernel.writes)
        self.apply('deep')
        self.assertEqual(before, self.kernel.writes)
        self.apply()
        before = list(self.kernel.writes)
        self.apply()
        self.assertEqual(before, self.kernel.writes)

    def test_what_the_kernel_rounds_is_not_written_again(self):
        self.apply('ahead')
        self.assertEqual({'read_ahead_kb': '1020'}, self.changed())
        before = list(self.kernel.writes)
        self.apply('ahead')
        self.assertEqual(before, self.kernel.writes)

    def test_what_the_kernel_refuses_is_logged_once(self):
        for _ in range(3):
            self.apply('crowded')
        self.assertEqual({}, self.changed())
        refused = [one for one in self.kernel.writes if one[2] == '1024']
        self.assertEqual(1, len(refused))
        self.assertEqual(1, self.log.output.count('1024 is refused'))
        self.apply()
        self.assertEqual([], self.saved())

    def test_what_the_kernel_is_too_busy_for_is_written_again(self):
        self.apply('deep')
        tuned = self.changed()
        for setting in ('scheduler', 'read_ahead_kb'):
            self.apply()
            self.kernel.busy = {setting}
            self.apply('deep')
            # the others are written
            self.assertNotEqual({}, self.changed())
            self.assertNotEqual(tuned, self.changed())
            self.apply('deep')
            self.assertEqual(tuned, self.changed())
            self.kernel.busy = {setting}
            self.apply()
            self.assertNotEqual({}, self.changed())
            self.apply()
            self.assertEqual(({}, []), (self.changed(), self.saved()))

    def test_a_kernel_that_stays_busy_is_logged_once(self):
        for _ in range(3):
            self.kernel.busy = {'scheduler'}
            self.apply('deep')
        said = 'scheduler of sda stays none, bfq is refused: Device or'
        self.assertEqual(1, self.log.output.count(said))

    def test_what_one_scheduler_refuses_another_may_take(self):
        self.kernel.depth = 256
        self.kernel.queues['sda']['nr_requests'] = '256'
        self.apply('crowded')
        self.assertEqual({'nr_requests': '256'}, self.changed())
        self.apply('roomy')
        self.assertEqual('1024', self.changed()['nr_requests'])

    def test_while_a_disk_is_measured(self):
        self.apply('deep')
        tuned = self.changed()
        with plain_queue.applied(self.state, UUID, 'sda'):
            measured = self.changed()
            self.assertEqual('1', measured['nomerges'])
            for profiles in (('deep',), ('plain',), ()):
                self.apply(*profiles)
                self.assertEqual(measured, self.changed())
        self.assertEqual(tuned, self.changed())
        self.apply()
        self.assertEqual({}, self.changed())

    def leave_measured(self):
        """Leave the queue of a process that was killed while measuring."""
        self.kernel.write('sda', 'scheduler', 'bfq')
        self.kernel.write('sda', 'nr_requests', '99')
        before = self.changed()
        saved = plain_queue.saved_settings_of(self.state)
        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.saved_settings.SavedSettings.restore',
            lambda self, uuid: None,
        ):
            with plain_queue.applied(self.state, UUID, 'sda'):
                pass
        self.assertEqual([UUID], saved.uuids())
        self.assertEqual('1', self.changed()['nomerges'])
        return before

    def test_a_measurement_was_killed(self):
        for mode, disks in (('on', None), ('off', None), ('dry_run', [])):
            before = self.leave_measured()
            self.tuner = make_tuner(self.state, mode)
            self.apply(disks=disks)
            self.assertEqual(before, self.changed())
            self.apply(disks=disks)
            self.assertEqual(before, self.changed())

    def test_a_server_starts_after_a_measurement_was_killed(self):
        before = self.leave_measured()
        self.apply('plain')
        self.apply()
        self.assertEqual(before, self.changed())

    def test_what_others_change_is_put_right(self):
        self.apply('deep')
        tuned = self.changed()
        self.kernel.write('sda', 'scheduler', 'none')
        self.kernel.write('sda', 'read_ahead_kb', '8')
        self.apply('deep')
        self.assertEqual(tuned, self.changed())

    def test_one_server_leaves(self):
        self.apply('deep', 'plain')
        self.assertEqual('mq-deadline', self.changed()['scheduler'])
        self.assertEqual('4096', self.changed()['read_ahead_kb'])
        self.apply('plain')
        self.assertEqual(
            {
                'scheduler': 'mq-deadline',
                'nr_requests': '256',
                'wbt_lat_usec': '0',
            },
            self.changed(),
        )

    def test_a_server_that_is_stopped(self):
        self.apply('deep')
        server = make_server('deep', running=False)
        self.tuner.apply([server], [self.disk])
        self.assertEqual({}, self.changed())

    def test_servers_that_want_nothing(self):
        self.apply('nothing', None)
        self.assertEqual([], self.kernel.writes)
        self.assertFalse(os.path.exists(os.path.join(self.state, 'queues')))

    def test_a_profile_that_there_is_not(self):
        for _ in range(2):
            self.apply('deep', 'nonesuch')
        self.assertEqual('bfq', self.changed()['scheduler'])
        self.assertEqual(1, self.log.output.count('no profile nonesuch'))
        self.assertIn('server-nonesuch', self.log.output)

    def test_a_profile_that_is_missing_again(self):
        server = make_server('nonesuch')
        for profile in ('nonesuch', 'deep', 'nonesuch', None, 'nonesuch'):
            specs = make_server(profile).extra_specs
            self.tuner.apply(
                [dataclasses.replace(server, extra_specs=specs)], [self.disk]
            )
        self.assertEqual(3, self.log.output.count('no profile nonesuch'))

    def test_nothing_is_kept_of_what_is_gone(self):
        self.kernel.shared = {'sda'}
        self.apply('nonesuch', 'deep')
        self.assertEqual(2, len(self.tuner._log._last))
        self.apply('nonesuch', 'deep', disks=[])
        self.assertEqual({}, self.tuner._log._last)

    def test_a_queue_that_others_share(self):
        self.kernel.shared.add('sda')
        for _ in range(2):
            self.apply('deep')
        self.assertEqual([], self.kernel.writes)
        self.assertEqual(1, self.log.output.count('sda is shared'))

    def test_a_queue_that_others_come_to_share(self):
        self.apply('deep')
        self.kernel.shared.add('sda')
        self.apply('deep')
        self.assertEqual({}, self.changed())

    def test_one_disk_spoils_no_other(self):
        self.kernel.add('sdb')
        self.kernel.shared.add('sda')
        disks = [self.disk, make_disk(OTHER, '/dev/sdb')]
        servers = [make_server('deep'), make_server('deep', OTHER)]
        self.tuner.apply(servers, disks)
        self.assertEqual({}, self.changed())
        self.assertEqual('bfq', self.changed('sdb')['scheduler'])

    def test_originals_that_cannot_be_saved(self):
        with open(os.path.join(self.state, 'queues'), 'w'):
            pass
        self.assertRaises(exception.DiskError, self.apply, 'deep')
        self.assertEqual([], self.kernel.writes)

    def test_originals_that_cannot_be_read(self):
        self.apply('deep')
        path = os.path.join(self.state, 'queues', f'{UUID}.json')
        with open(path, 'w'):
            pass
        self.tuner = make_tuner(self.state)
        before = list(self.kernel.writes)
        for _ in range(2):
            self.apply('plain')
            self.apply()
        self.assertEqual(before, self.kernel.writes)
        self.assertEqual(1, self.log.output.count('does not contain'))

    def test_a_disk_is_forgotten(self):
        self.apply('deep')
        self.apply('deep', disks=[])
        self.assertEqual({}, self.changed())
        self.assertEqual([], self.saved())

    def test_a_disk_is_missing(self):
        self.apply('deep')
        tuned = self.changed()
        missing = discover.missing(UUID, f'/disks/{UUID}')
        self.apply('deep', disks=[missing])
        self.assertEqual(tuned, self.changed())
        self.apply(disks=[missing])
        self.assertEqual({}, self.changed())

    def test_a_disk_that_was_taken_out_and_is_another_one_now(self):
        self.apply('deep')
        self.kernel.add('sda')
        self.apply()
        self.assertEqual({}, self.changed())
        self.assertEqual([], self.saved())

    def test_a_disk_comes_back_and_has_to_be_tuned_again(self):
        self.apply('deep')
        tuned = self.changed()
        del self.kernel.queues['sda']
        self.kernel.add('sdc')
        self.kernel.write('sdc', 'rq_affinity', '2')
        self.apply('deep', disks=[make_disk(device='/dev/sdc')])
        self.assertEqual({**tuned, 'rq_affinity': '2'}, self.changed('sdc'))
        self.apply(disks=[make_disk(device='/dev/sdc')])
        self.assertEqual({'rq_affinity': '2'}, self.changed('sdc'))

    def test_the_device_is_gone(self):
        self.apply('deep')
        del self.kernel.queues['sda']
        self.apply(disks=[])
        self.assertEqual([], self.saved())

    def test_after_a_reboot(self):
        self.apply('deep')
        # the kernel has forgotten, and its devices count from the beginning
        self.kernel.queues['sda'] = {**DEFAULTS, 'nomerges': '1'}
        with fixtures.MonkeyPatch(
            'nova_diskplacer.host.saved_settings.boot_id', lambda: 'another'
        ):
            self.tuner = make_tuner(self.state)
        self.apply()
        self.assertEqual({'nomerges': '1'}, self.changed())
        self.assertEqual([], self.saved())

    def test_a_scheduler_that_is_a_module(self):
        self.kernel.schedulers.remove('bfq')
        self.kernel.modules.append('bfq')
        self.apply('deep')
        self.assertEqual('bfq', self.changed()['scheduler'])
        self.apply()
        self.assertEqual({}, self.changed())

    def test_a_disk_that_fails_tells_nothing_of_a_module(self):
        """It was unplugged when it was to load the module for all."""
        self.kernel.schedulers.remove('bfq')
        self.kernel.modules.append('bfq')
        fail = fixtures.MonkeyPatch(
            'nova_diskplacer.host.block_queue.write', self.fail_to_write
        )
        with fail:
            for _ in range(3):
                self.apply('deep')
        self.assertNotIn('has no I/O scheduler', self.log.output)
        self.assertEqual(1, self.log.output.count('is not changed: '))
        self.apply('deep')
        self.assertEqual('bfq', self.changed()['scheduler'])

    def fail_to_write(self, device, setting, value):
        raise OSError(errno.ENODEV, 'No such device')

    def test_a_scheduler_that_there_is_not(self):
        self.kernel.schedulers.remove('bfq')
        for _ in range(3):
            self.apply('deep')
        tried = [one for one in self.kernel.writes if one[2] == 'bfq']
        self.assertEqual(1, len(tried))
        self.assertEqual({'read_ahead_kb': '4096'}, self.changed())

    def test_dry_run(self):
        self.tuner = make_tuner(self.state, 'dry_run')
        for _ in range(2):
            self.apply('deep')
        self.assertEqual([], self.kernel.writes)
        self.assertFalse(os.path.exists(os.path.join(self.state, 'queues')))
        said = 'Dry run: scheduler of sda would become bfq, is none'
        self.assertEqual(1, self.log.output.count(said))
        self.apply()
        self.assertEqual([], self.kernel.writes)

    def test_dry_run_leaves_what_was_changed_before(self):
        self.apply('deep')
        tuned = self.changed()
        self.tuner = make_tuner(self.state, 'dry_run')
        self.apply()
        self.assertEqual(tuned, self.changed())
        self.assertEqual([f'{UUID}.json'], self.saved())
        self.assertIn('read_ahead_kb of sda would become 128', self.log.output)

    def test_off_undoes_what_was_changed_before(self):
        self.apply('deep')
        self.tuner = make_tuner(self.state, 'off')
        self.apply('deep')
        self.assertEqual({}, self.changed())
        self.assertEqual([], self.saved())


class LifeOfADisk(stateful.RuleBasedStateMachine):
    """Servers come and go, and the agent and measurements are killed anywhere.

    Whatever has happened, once there is a look that ends, the queue is as it
    would be if there had been nothing else before: a function of what it was
    at first and of the profiles that are there now.
    """

    def __init__(self):
        super().__init__()
        self.kernel = Kernel()
        self.kernel.add('sda')
        self.countdown = None
        self.state = tempfile.mkdtemp()
        self.patches = [
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.block_queue.exclusive_device',
                self.kernel.exclusive_device,
            ),
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.block_queue.diskseq', self.kernel.diskseq
            ),
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.block_queue.read', self.kernel.read
            ),
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.block_queue.write',
                self.step(self.kernel.write),
            ),
            fixtures.MonkeyPatch('os.rename', self.step(os.rename)),
            fixtures.MonkeyPatch('os.unlink', self.step(os.unlink)),
            fixtures.MonkeyPatch(
                'nova_diskplacer.profiles.catalogue.load', make_profiles
            ),
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.files._lock_directory', self.state
            ),
            fixtures.FakeLogger(),
        ]
        for patch in self.patches:
            patch.setUp()
        self.profiles = []
        self.tuner = make_tuner(self.state)

    def teardown(self):
        for patch in reversed(self.patches):
            patch.cleanUp()
        shutil.rmtree(self.state)

    def step(self, function):
        """Have a function kill the agent before or after it has worked."""

        def call(*args, **kwargs):
            self.tick()
            result = function(*args, **kwargs)
            self.tick()
            return result

        return call

    def tick(self):
        if self.countdown is not None:
            self.countdown -= 1
            # who is dead cleans up nothing
            if self.countdown < 0:
                raise Killed

    def apply(self):
        servers = [make_server(profile) for profile in self.profiles]
        self.tuner.apply(servers, [make_disk()])

    @stateful.rule(
        profiles=st.lists(st.sampled_from(sorted(PROFILES)), unique=True)
    )
    def servers_come_and_go(self, profiles):
        self.profiles = profiles

    @stateful.rule()
    def all_leave(self):
        self.profiles = []

    @stateful.rule(steps=st.integers(0, 12))
    def agent_is_killed(self, steps):
        self.countdown = steps
        try:
            self.apply()
        except Killed:
            self.tuner = make_tuner(self.state)
        self.countdown = None

    @stateful.rule(steps=st.integers(0, 40))
    def measurement_is_killed(self, steps):
        self.countdown = steps
        with contextlib.suppress(Killed), self.measurement():
            self.assert_measured()
        self.countdown = None

    @stateful.rule()
    def measure(self):
        with self.measurement():
            self.assert_measured()
            # the agent waits for the end
            self.apply()
            self.assert_measured()

    def measurement(self):
        return plain_queue.applied(self.state, UUID, 'sda')

    def assert_measured(self):
        values = self.kernel.queues['sda']
        assert values['scheduler'] == 'none', values
        assert values['nomerges'] == '1', values

    @stateful.rule()
    def look(self):
        self.apply()
        wanted = queue_policy.merge_profiles(
            [make_profiles()[name] for name in self.profiles], 'hdd'
        )
        expected = queue_policy.target_settings(
            wanted, DEFAULTS, self.kernel.schedulers, self.kernel.depth
        )
        # as the kernel takes it
        if expected['scheduler'] == 'none':
            expected['nr_requests'] = '128'
        ahead = int(expected['read_ahead_kb']) // 4 * 4
        expected['read_ahead_kb'] = str(ahead)
        assert expected == self.kernel.queues['sda'], (
            self.profiles, expected, self.kernel.queues['sda']
        )  # fmt: skip
        saved = saved_settings.SavedSettings(
            os.path.join(self.state, 'queues'), lambda saved: False
        ).uuids()
        assert bool(saved) == (wanted != definitions.Queue())
        assert plain_queue.saved_settings_of(self.state).uuids() == []


LifeOfADiskTest = LifeOfADisk.TestCase
LifeOfADiskTest.settings = hypothesis.settings(
    max_examples=100, stateful_step_count=20
)
