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
import pathlib

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.cmd import weights
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.measure import io_model
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.monitor import sampler
from tests import configured
from tests.fakes import disks as fake_disks

MODEL = io_model.Model(1, 1, 1, 1, 1, 1, 1)


class CheckTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.sys = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conf = self.useFixture(configured.Options()).conf
        self.models = {}
        self.devices, self.missing = {}, {}
        self.servers = []
        self.modules = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        disk = fake_disks.make_disk('a')
        for target, name, value in (
            (discover, 'discover', lambda *_: [disk]),
            (
                sampler,
                'find_devices',
                lambda disks, sys: (self.devices, self.missing),
            ),
            (cgroups, 'hierarchy', lambda: cgroups.Hierarchy(self.root)),
            (io_model, 'load', lambda root, uuid: self.models.get(uuid)),
            (libvirt_servers, 'list_servers', self.list_servers),
            (controllers, '_MODULES', str(self.modules)),
        ):
            self.useFixture(fixtures.MockPatchObject(target, name, value))

    def list_servers(self, uri):
        if isinstance(self.servers, Exception):
            raise self.servers
        return self.servers

    def have_server(self, profile, running=True):
        self.servers.append(
            libvirt_servers.Server(
                profile,
                'x',
                {'diskplacer:profile': profile},
                ('/disks/a/vdisks/volume-1',),
                {},
                running,
                False,
                '',
            )
        )

    def have_profile(self, schedulers):
        (self.modules / 'own.yaml').write_text(
            'name: own\ntitle: own\ndescription: own\n'
            f'queue: {{hdd: {{schedulers: {schedulers}}}}}\n'
        )
        self.conf.set_override(
            'profile_dirs', [str(self.modules)], 'diskplacer'
        )

    def tune(self, mode):
        self.conf.set_override('queue_tuning', mode, 'diskplacer_agent')

    def add(self, uuid, scheduler, rotational=True):
        name = f'sd{uuid}'
        queue = self.sys / 'class/block' / name / 'queue'
        (queue / 'iosched').mkdir(parents=True)
        (queue / 'scheduler').write_text(f'{scheduler}\n')
        (queue / 'iosched/slice_idle').write_text('8\n')
        self.devices[uuid] = Device(uuid, name, '8:0', rotational)

    def have_io_cost(self):
        (self.root / 'io.cost.qos').write_text('')

    def check(self):
        return {
            one.uuid: (one.controller, one.problem, one.command)
            for one in weights.check(self.conf, str(self.sys))
        }

    def test_disks_that_are_ready(self):
        self.have_io_cost()
        self.add('a', '[bfq] none')
        self.add('b', '[mq-deadline] none', rotational=False)
        self.models['b'] = MODEL
        self.assertEqual(
            {'a': ('bfq', '', ''), 'b': ('io.cost', '', '')}, self.check()
        )

    def test_a_disk_that_is_not_measured(self):
        self.have_io_cost()
        self.add('a', '[none] bfq', rotational=False)
        controller, problem, command = self.check()['a']
        self.assertEqual('', controller)
        self.assertIn('io.cost is not enabled for sda', problem)
        self.assertEqual('diskplacer-manage disk measure a', command)

    def test_a_kernel_without_io_cost(self):
        self.add('a', '[none] bfq', rotational=False)
        self.models['a'] = MODEL
        controller, problem, command = self.check()['a']
        self.assertEqual('', controller)
        self.assertIn('CONFIG_BLK_CGROUP_IOCOST', problem)
        self.assertEqual('', command)

    def test_the_agent_sets_bfq_on_a_hard_disk(self):
        self.have_io_cost()
        # a model says nothing there
        self.models['a'] = MODEL
        self.add('a', '[none] bfq')
        self.assertEqual({'a': ('bfq', '', '')}, self.check())

    def test_bfq_is_a_module(self):
        self.add('a', '[none] mq-deadline')
        controller, problem, command = self.check()['a']
        self.assertEqual(('', ''), (controller, command))
        self.assertIn('CONFIG_IOSCHED_BFQ', problem)
        release = self.modules / os.uname().release
        release.mkdir()
        (release / 'modules.dep').write_text('kernel/block/bfq.ko.xz:\n')
        self.assertEqual({'a': ('bfq', '', '')}, self.check())

    def test_a_hard_disk_that_the_agent_does_not_tune(self):
        self.add('a', '[none] bfq')
        self.have_profile('[none]')
        self.have_server('own')
        for mode in ('off', 'dry_run'):
            self.tune(mode)
            controller, problem, command = self.check()['a']
            self.assertEqual('', controller)
            self.assertIn('scheduler of sda is none', problem)
            self.assertEqual(
                'echo bfq > /sys/block/sda/queue/scheduler', command
            )

    def test_a_profile_without_bfq(self):
        self.have_profile('[mq-deadline, none]')
        # whatever its scheduler is now
        self.add('a', '[bfq] none')
        self.have_server('own', running=False)
        self.assertEqual({'a': ('bfq', '', '')}, self.check())
        self.have_server('own')
        controller, problem, command = self.check()['a']
        self.assertEqual(('', ''), (controller, command))
        self.assertIn('schedulers of profile own is mq-deadline', problem)
        self.assertIn(problem, list(weights.hints(self.conf)))
        # what the agent does not set counts for nothing
        self.tune('off')
        self.assertEqual({'a': ('bfq', '', '')}, self.check())
        self.assertNotIn(problem, list(weights.hints(self.conf)))

    def test_shipped_profiles_exclude_nothing(self):
        self.conf.set_override('mode', 'on', 'diskplacer_weights')
        self.assertEqual([], list(weights.hints(self.conf)))

    def test_libvirt_does_not_answer(self):
        self.add('a', '[bfq] none')
        self.servers = exception.HypervisorError('no libvirt')
        with contextlib.redirect_stderr(io.StringIO()) as told:
            self.assertEqual({'a': ('bfq', '', '')}, self.check())
        self.assertIn('not checked: no libvirt', told.getvalue())

    def test_io_cost_on_a_hard_disk(self):
        self.have_io_cost()
        self.conf.set_override('controller', 'io.cost', 'diskplacer_weights')
        for scheduler in ('[none] bfq', '[bfq] none'):
            self.add(scheduler[1], scheduler)
            self.models[scheduler[1]] = MODEL
        self.add('c', '[none]', rotational=False)
        self.models['c'] = MODEL
        found = self.check()
        self.assertEqual(('io.cost', '', ''), found.pop('c'))
        for controller, problem, command in found.values():
            self.assertEqual(('', ''), (controller, command))
            self.assertIn('controller=io.cost is refused', problem)
            self.assertIn('Allowed', problem)

    def test_bfq_on_flash(self):
        self.have_io_cost()
        self.add('a', '[bfq]', rotational=False)
        controller, problem, command = self.check()['a']
        self.assertEqual('bfq', controller)
        self.assertIn('solid state', problem)
        self.assertEqual('diskplacer-manage disk measure a', command)

    def test_a_disk_without_device(self):
        self.missing['a'] = 'the disk is missing'
        self.assertEqual({'a': ('', 'the disk is missing', '')}, self.check())

    def run_(self, *arguments):
        stdout, self.stderr = io.StringIO(), io.StringIO()
        with (
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(self.stderr),
        ):
            args = manage.make_parser(['weights']).parse_args(
                ['weights', 'check', *arguments]
            )
            status = args.handler(self.conf, args)
        return status, stdout.getvalue()

    def test_command(self):
        self.useFixture(
            fixtures.MockPatchObject(
                weights,
                'check',
                lambda conf: [
                    weights.DiskCheck('a', 'sda', 'bfq'),
                    weights.DiskCheck('b', 'sdb', '', 'slow', 'do this'),
                ],
            )
        )
        status, text = self.run_()
        self.assertEqual(3, status)
        self.assertIn('Weights are off in the configuration files', text)
        self.assertIn('--config-file', text)
        self.conf.set_override('mode', 'dry_run', 'diskplacer_weights')
        self.assertIn('No weights are set with', self.run_()[1])
        self.conf.set_override('mode', 'on', 'diskplacer_weights')
        self.assertNotIn('[diskplacer_weights]', self.run_()[1])
        status, text = self.run_('--format', 'json')
        self.assertEqual(
            ['', 'do this'], [one['command'] for one in json.loads(text)]
        )
        self.assertEqual('', self.stderr.getvalue())
        self.conf.set_override('mode', 'off', 'diskplacer_weights')
        _, text = self.run_('--format', 'json')
        self.assertEqual(2, len(json.loads(text)))
        self.assertIn('Weights are off in the', self.stderr.getvalue())

    def test_all_is_well(self):
        self.useFixture(
            fixtures.MockPatchObject(
                weights,
                'check',
                lambda conf: [weights.DiskCheck('a', 'sda', 'bfq')],
            )
        )
        self.assertEqual(0, self.run_()[0])
