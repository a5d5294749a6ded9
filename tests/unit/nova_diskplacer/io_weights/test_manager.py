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

"""Tests of what happens in an interval; no kernel controller is needed."""

import dataclasses
from unittest import mock

import fixtures
import numpy
import testtools

from nova_diskplacer import exception
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.disks.measure import plain_queue
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import bfq_settings
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import disk_trials
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import manager
from nova_diskplacer.io_weights import turns
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from tests import configured
from tests.unit.nova_diskplacer.monitor import samples

MB = 10**6
A = Device('disk-a', 'sda', '8:0', rotational=True)
B = Device('disk-b', 'sdb', '8:16', rotational=True)
BUSY, IDLE = ('busy', A.uuid), ('idle', A.uuid)
BFQ = controllers.Controller('bfq', 'io.bfq.weight')
MODEL = io_model.Model(20 * MB, 4000, 3000, 10 * MB, 2000, 1000, latency=400)


class FakeWriter:
    """Records the weights that are to be applied."""

    def __init__(self):
        self.calls = []
        self.errors = {}

    def apply(self, wanted, consumers, devices, controllers_):
        self.calls.append((wanted, [one.key for one in consumers], devices))
        if isinstance(self.errors, Exception):
            raise self.errors
        return self.errors


class FakeIOCost:
    """Records on which disks io.cost is enabled."""

    def __init__(self):
        self.enabled = {}
        self.adapted = 0

    def enable(self, device, model):
        self.enabled[device.uuid] = model

    def disable(self, uuid):
        self.enabled.pop(uuid, None)

    def disable_except(self, uuids):
        self.enabled = {
            uuid: one for uuid, one in self.enabled.items() if uuid in uuids
        }

    def adapt_models(self, states):
        self.adapted += 1

    def speeds(self):
        return {uuid: one.rbps for uuid, one in self.enabled.items()}


TRIAL = turns.Trial(choice=0)


class FakeBFQSettings:
    """Records the disks whose settings of BFQ are changed."""

    def __init__(self):
        self.contended = []
        self.below_limit = []
        self.tried = set()

    def has_trial(self, uuid):
        return uuid in self.tried

    def apply(self, contended, seconds, below_limit):
        self.contended.append(dict(contended))
        self.below_limit.append(set(below_limit))
        return {device.uuid: TRIAL for device in contended}


class WeightManagerTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(configured.Options()).conf
        self.writer, self.io_cost = FakeWriter(), FakeIOCost()
        self.patch(writer, 'WeightWriter', lambda *_: self.writer)
        self.patch(io_cost, 'IOCost', lambda *_: self.io_cost)
        self.bfq_settings = FakeBFQSettings()
        self.patch(bfq_settings, 'BFQSettings', lambda *_: self.bfq_settings)
        self.patch(controllers, 'active_controller', self.active_controller)
        self.patch(
            controllers, 'configured_controller', lambda *_: self.configured
        )
        self.patch(controllers, 'scheduler_of', lambda device: self.scheduler)
        self.patch(controllers, 'kernel_has_bfq', self.has_bfq)
        self.kernel_has_bfq, self.asked = True, []
        self.patch(io_model, 'load', lambda root, uuid: self.models.get(uuid))
        self.active = {A.uuid: BFQ}
        self.configured = self.scheduler = controllers.BFQ
        self.models = {}
        self.detections = 0
        self.devices = {A.uuid: A}
        self.disks = {}
        self.servers = ()
        self.consumers = {
            key: types.Consumer(key, f'machine/{key}')
            for key in ('busy', 'idle')
        }
        self.manager = self.start(mode='on')

    def patch(self, target, name, replacement):
        self.useFixture(fixtures.MockPatchObject(target, name, replacement))

    def start(self, **options):
        for name, value in options.items():
            self.conf.set_override(name, value, 'diskplacer_weights')
            self.addCleanup(
                self.conf.clear_override, name, 'diskplacer_weights'
            )
        return manager.WeightManager(self.conf, cgroups.Hierarchy('/cgroup'))

    def has_bfq(self, device):
        self.asked.append(device.uuid)
        return self.kernel_has_bfq

    def active_controller(self, device, hierarchy, choice):
        self.detections += 1
        if device.uuid not in self.active:
            raise exception.ContentionError(f'{device.name} has no controller')
        return self.active[device.uuid]

    def apply(
        self, used=128 * MB, seekers=(), intervals=1, charged=0.0, other=0
    ):
        """Return the decision after intervals with this use of the disk."""
        moved = numpy.array([used, other])
        for _ in range(intervals):
            decision = self.manager.apply(
                samples.make_sample(
                    (BUSY, IDLE),
                    read_bytes=moved,
                    charged_seconds=numpy.array([charged, 0.0]),
                    idle=moved == 0,
                    consumers=self.consumers,
                    devices=self.devices,
                    disks=self.disks,
                    servers=self.servers,
                ),
                seekers,
            )
        return decision

    def test_applied(self):
        decision = self.apply()
        self.assertEqual({BUSY: 90, IDLE: 100}, decision.weights)
        self.assertEqual([9.0, 10.0], decision.shares.classes.tolist())
        self.assertEqual({A.uuid: BFQ}, decision.controllers)
        self.assertEqual(
            [({BUSY: 90, IDLE: 100}, ['busy', 'idle'], self.devices)],
            self.writer.calls,
        )
        self.assertEqual(1, self.io_cost.adapted)

    def make_disks(self, busy, queue=2.0):
        state = types.DiskState(
            A, 1.0, 100.0, 20.0, 1.0, 1.0, busy, queue, 0.05, None, False, 0.0
        )
        return {A.uuid: state}

    def test_a_disk_that_is_not_at_its_limit_keeps_bfqs_own_settings(self):
        self.disks = self.make_disks(busy=0.5)
        decision = self.apply(other=1)
        self.assertEqual({BUSY: 90, IDLE: 100}, decision.weights)
        self.assertEqual({}, decision.trials)
        self.assertEqual([{}], self.bfq_settings.contended)
        self.assertEqual([{A.uuid}], self.bfq_settings.below_limit)

    def test_a_disk_with_a_trial_stays_at_its_limit_while_requests_wait(self):
        self.bfq_settings.tried = {A.uuid}
        for queue, is_contended in ((1.0, True), (0.9, False)):
            self.disks = self.make_disks(busy=0.5, queue=queue)
            trials = self.apply(other=1).trials
            self.assertEqual(is_contended, A.uuid in trials)

    def test_contended(self):
        self.disks = self.make_disks(busy=0.9)
        self.assertEqual({}, self.apply().trials)
        self.assertEqual({A.uuid: TRIAL}, self.apply(other=1).trials)
        self.devices = {A.uuid: dataclasses.replace(A, rotational=False)}
        self.apply(other=1)
        self.devices = {A.uuid: A}
        self.active = {A.uuid: controllers.IO_COST_CONTROLLER}
        self.apply(other=1, intervals=5)
        found = self.bfq_settings.contended
        # weights of 90 and 100
        load = disk_trials.Load(0, 120.0, frozenset({'busy', 'idle'}))
        self.assertEqual([{}, {A: load}, {}, {}], found[:4])
        self.assertEqual({}, found[-1])
        self.assertFalse(any(self.bfq_settings.below_limit))

    def test_light_servers_were_active_before(self):
        self.disks = self.make_disks(busy=0.9)
        for other in (0, 1, 1, 64 * MB, 0, 1):
            self.apply(other=other)
        self.assertEqual(
            [[], [False], [True], [False], [], [False]],
            [
                [load.is_light for load in contended.values()]
                for contended in self.bfq_settings.contended
            ],
        )

    def test_weights_that_cannot_be_set_need_no_settings_of_bfq(self):
        """A kernel may have bfq without CONFIG_BFQ_GROUP_IOSCHED."""
        self.disks = self.make_disks(busy=0.9)
        self.writer.errors = {BUSY: 'does not exist'}
        self.assertEqual({}, self.apply(other=1).trials)
        self.writer.errors = {IDLE: 'does not exist'}
        self.assertEqual({A.uuid: TRIAL}, self.apply(other=1).trials)

    def test_changes(self):
        changes = [
            self.apply(used).changes for used in (128 * MB, 128 * MB, 1)
        ]
        self.assertEqual([2, 1, 0], changes)

    def test_seekers(self):
        decision = self.apply(0, seekers={BUSY})
        self.assertEqual([5.0, 10.0], decision.shares.classes.tolist())

    def test_errors(self):
        self.writer.errors = {BUSY: 'refused'}
        self.assertEqual({BUSY: 'refused'}, self.apply().errors)
        self.writer.errors = exception.DiskError('the state is not readable')
        self.assertRaises(exception.DiskError, self.apply)

    def test_exempt(self):
        self.manager = self.start(exempt=['busy'])
        decision = self.apply(10**12)
        self.assertEqual({IDLE: 100}, decision.weights)
        self.assertEqual([True, False], decision.shares.exempt.tolist())

    def test_consumers_change(self):
        self.apply()
        self.consumers = {
            **self.consumers,
            'busy': types.Consumer('busy', 'machine/busy', project='gold'),
        }
        self.manager._conf.set_override(
            'exempt', ['gold'], 'diskplacer_weights'
        )
        self.addCleanup(
            self.conf.clear_override, 'exempt', 'diskplacer_weights'
        )
        self.assertEqual({IDLE: 100}, self.apply().weights)

    def test_dry_run(self):
        self.models = {A.uuid: MODEL}
        self.active, self.configured = {}, controllers.IO_COST
        self.manager = self.start(mode='dry_run')
        decision = self.apply()
        # io.cost would be enabled
        self.assertEqual(90, decision.weights[BUSY])
        self.assertEqual(
            controllers.IO_COST_CONTROLLER, decision.controllers[A.uuid]
        )
        self.assertEqual([], self.writer.calls)
        self.assertEqual({}, self.io_cost.enabled)
        self.assertEqual(0, self.io_cost.adapted)

    def test_dry_run_logs_what_would_change_once(self):
        self.models = {A.uuid: MODEL}
        self.active, self.configured = {}, controllers.IO_COST
        self.manager = self.start(mode='dry_run')
        for used in (128 * MB, 256 * MB, 0, 0, 512 * MB):
            self.apply(used, intervals=6)
        for text in (
            'io.cost would be enabled on disk disk-a',
            'weight of busy on disk disk-a would be changed;',
        ):
            self.assertEqual(1, self.log.output.count(text))
        self.assertNotIn('weight of idle', self.log.output)

    def test_no_controller(self):
        self.active = {}
        for _ in range(3):
            decision = self.apply(intervals=5)
            self.assertEqual({}, decision.weights)
            self.assertEqual(
                {A.uuid: 'sda has no controller'}, decision.refusals
            )
        self.assertEqual(1, self.log.output.count('have no effect on disk'))
        # it is found some intervals later
        self.active = {A.uuid: BFQ}
        decision = self.apply(intervals=5)
        self.assertEqual({}, decision.refusals)
        self.assertEqual(2, len(decision.weights))

    def test_bfq_on_flash(self):
        self.devices = {A.uuid: dataclasses.replace(A, rotational=False)}
        self.apply(intervals=10)
        self.assertEqual(1, self.log.output.count('BFQ keeps a disk idle'))

    def test_bfq_that_the_agent_has_still_to_set(self):
        self.scheduler, self.active = 'kyber', {}
        for _ in range(10):
            decision = self.apply(intervals=5)
            self.assertEqual({}, decision.refusals)
            self.assertIn('sets bfq', decision.left_out[A.uuid])
            self.assertEqual({}, decision.weights)
        self.assertNotIn('have no effect', self.log.output)
        # it cannot
        decision = self.apply(intervals=5)
        self.assertEqual({}, decision.left_out)
        self.assertEqual({A.uuid: 'sda has no controller'}, decision.refusals)
        self.scheduler, self.active = 'bfq', {A.uuid: BFQ}
        decision = self.apply(intervals=5)
        self.assertEqual(({}, {}), (decision.refusals, decision.left_out))
        self.assertEqual({A.uuid}, {*decision.controllers})

    def test_a_disk_that_is_being_measured(self):
        """It has no scheduler then, for minutes."""
        for tuning in ('on', 'off'):
            self.conf.set_override('queue_tuning', tuning, 'diskplacer_agent')
            self.manager = self.start(mode='on')
            self.scheduler, self.active = 'none', {}
            measured = plain_queue.saved_settings_of(
                self.conf.diskplacer_agent.state_dir
            )
            measured.save(
                A.uuid,
                saved_settings.DeviceSettings('sda', '', {'scheduler': 'bfq'}),
            )
            for _ in range(12):
                decision = self.apply(intervals=5)
                self.assertEqual({}, decision.refusals)
                self.assertIn('is being measured', decision.left_out[A.uuid])
            measured.save(A.uuid, saved_settings.DeviceSettings('sda', '', {}))
            self.scheduler, self.active = 'bfq', {A.uuid: BFQ}
            decision = self.apply(intervals=5)
            self.assertEqual({A.uuid: BFQ}, decision.controllers)

    def test_bfq_that_the_agent_does_not_set(self):
        self.conf.set_override('queue_tuning', 'off', 'diskplacer_agent')
        self.scheduler, self.active = 'kyber', {}
        self.have_profile('own', 'own')
        self.assertEqual(
            {A.uuid: 'sda has no controller'}, self.apply().refusals
        )

    def test_dry_run_with_bfq_that_would_be_set(self):
        self.scheduler, self.active = 'kyber', {}
        self.manager = self.start(mode='dry_run')
        decision = self.apply()
        self.assertEqual({A.uuid: BFQ}, decision.controllers)
        self.assertEqual(90, decision.weights[BUSY])
        self.apply(intervals=10)
        self.assertEqual(
            1, self.log.output.count('bfq would be the I/O scheduler')
        )

    def test_dry_run_with_a_kernel_without_bfq(self):
        self.scheduler, self.active = 'kyber', {}
        self.kernel_has_bfq = False
        self.manager = self.start(mode='dry_run')
        for _ in range(3):
            decision = self.apply(intervals=5)
            self.assertEqual(
                ({}, {}), (decision.controllers, decision.weights)
            )
            self.assertEqual(
                {A.uuid: 'sda has no controller'}, decision.refusals
            )
        self.assertNotIn('Dry run', self.log.output)
        self.assertEqual([A.uuid], self.asked)

    def have_profile(self, *names):
        """Have a profile without bfq, and servers with these on the disk."""
        own = definitions.Profile(
            'own', '', '', queue={'hdd': definitions.Queue(('mq-deadline',))}
        )
        self.patch(catalogue, 'load', lambda *_: catalogue.Catalogue([own]))
        self.manager = self.start(mode='on')
        self.have_servers(*names)

    def have_servers(self, *names):
        """Have servers with vdisks on the disk, and these profiles."""
        servers = [
            libvirt_servers.Server(
                uuid=key,
                name=key,
                project='',
                domain_id=1,
                running=running,
                extra_specs={'diskplacer:profile': name},
                vdisks=(),
                caches={},
                pinned_by_nova=False,
                xml='',
            )
            for key, name, running in (
                *((name, name, True) for name in names),
                ('off', 'own', False),
            )
        ]
        self.servers = servers
        self.patch(
            usage,
            'servers_by_disk',
            lambda running, disks: {A.uuid: list(running)},
        )

    def test_profile_of_a_server_without_vdisks_there(self):
        """The kernel's counters still have it on the disk."""
        self.have_profile('own')
        self.assertIn('profile own', self.apply().left_out[A.uuid])
        self.patch(usage, 'servers_by_disk', lambda servers, disks: {})
        self.consumers = {
            key: types.Consumer(
                key, '', extra_specs={'diskplacer:profile': 'own'}
            )
            for key in self.consumers
        }
        decision = self.apply()
        self.assertEqual({}, decision.left_out)
        self.assertEqual({A.uuid: BFQ}, decision.controllers)

    def test_usage_is_not_read_if_no_profile_is_without_bfq(self):
        self.patch(usage, 'servers_by_disk', None)
        self.assertEqual({A.uuid: BFQ}, self.apply().controllers)

    def test_profile_without_bfq(self):
        self.models = {A.uuid: MODEL}
        self.have_profile('other', 'own')
        self.io_cost.enabled = {A.uuid: MODEL}
        for _ in range(5):
            decision = self.apply(intervals=5)
            self.assertEqual({}, decision.refusals)
            self.assertEqual({}, decision.controllers)
            self.assertIn(
                'schedulers of profile own is mq-deadline, without bfq',
                decision.left_out[A.uuid],
            )
        self.assertEqual({}, self.io_cost.enabled)
        self.assertEqual({}, decision.weights)
        self.assertEqual(1, self.log.output.count('has no I/O weights'))
        self.assertNotIn('have no effect', self.log.output)
        # weights are back at once when these servers are gone
        self.have_servers('other', 'other')
        self.consumers = self.consumers | {
            'idle': types.Consumer('idle', 'machine/idle', 'one')
        }
        self.assertEqual({A.uuid: BFQ}, self.apply().controllers)

    def test_io_cost_that_is_refused(self):
        """The kernel's own setting is back, whatever model there is."""
        self.models = {A.uuid: MODEL}
        self.io_cost.enabled = {A.uuid: MODEL}
        self.patch(controllers, 'configured_controller', self.refuse)
        self.manager = self.start(mode='on')
        self.assertEqual({A.uuid: 'refused'}, self.apply().refusals)
        self.assertEqual({}, self.io_cost.enabled)

    def refuse(self, device, choice):
        raise exception.ContentionError('refused')

    def test_detection_of_controllers(self):
        self.apply(intervals=5)
        self.assertEqual(1, self.detections)
        self.apply()
        self.assertEqual(2, self.detections)
        self.devices = {A.uuid: A, B.uuid: B}
        self.active[B.uuid] = BFQ
        self.assertEqual({A.uuid, B.uuid}, {*self.apply().controllers})
        self.assertEqual(4, self.detections)

    def test_io_cost(self):
        self.configured = controllers.IO_COST
        self.models = {A.uuid: MODEL}
        self.apply()
        self.assertEqual({A.uuid: MODEL}, self.io_cost.enabled)
        # a new measurement takes effect some intervals later
        faster = dataclasses.replace(MODEL, rbps=40 * MB)
        self.models = {A.uuid: faster}
        self.apply(intervals=30)
        self.assertEqual({A.uuid: faster}, self.io_cost.enabled)
        self.configured = controllers.BFQ
        self.apply(intervals=5)
        self.assertEqual({}, self.io_cost.enabled)

    def test_a_queue_that_hangs_for_a_moment(self):
        self.configured = controllers.IO_COST
        self.models = {A.uuid: MODEL}
        before = self.apply().controllers
        self.patch(controllers, 'configured_controller', self.hang)
        decision = self.apply(intervals=5)
        self.assertEqual({A.uuid: MODEL}, self.io_cost.enabled)
        self.assertEqual(before, decision.controllers)
        self.assertEqual({}, decision.refusals)
        # nothing is known of a disk that begins so
        self.manager = self.start(mode='on')
        self.assertEqual({A.uuid: 'hangs'}, self.apply().refusals)
        self.assertEqual({A.uuid: MODEL}, self.io_cost.enabled)

    def hang(self, device, choice):
        raise TimeoutError('hangs')

    def test_device_time_counts_with_io_cost(self):
        """As many bytes as the disk reads in the time."""
        self.configured = controllers.IO_COST
        self.models = {A.uuid: MODEL}
        decision = self.apply(4096, charged=0.5)
        self.assertEqual(
            [MODEL.rbps / 2, 0.0], decision.shares.used_bytes.tolist()
        )

    def test_io_cost_of_a_disk_that_is_not_measured(self):
        self.configured = controllers.IO_COST
        self.apply()
        self.assertEqual({}, self.io_cost.enabled)

    def test_forgotten_disk(self):
        self.configured = controllers.IO_COST
        self.models = {A.uuid: MODEL}
        self.apply()
        self.devices = {}
        self.apply()
        self.assertEqual({}, self.io_cost.enabled)

    def test_io_cost_of_another_disk_cannot_be_restored(self):
        """A disk that hangs, and is not one of these, harms none of these."""
        error = exception.DiskError('gone')
        self.io_cost.disable_except = mock.Mock(side_effect=error)
        for _ in range(11):
            self.assertEqual({}, self.apply().errors)
        self.assertEqual(1, self.log.output.count('io.cost: gone'))

    def test_invalid_options(self):
        for options in ({'curve': 'steep'}, {'tiers': {'gold': '60-50'}}):
            self.assertRaises(exception.ContentionError, self.start, **options)
            for name in options:
                self.conf.clear_override(name, 'diskplacer_weights')
