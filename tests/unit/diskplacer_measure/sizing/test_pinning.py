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

import os

import ddt
import fixtures
from oslotest import base

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import pinning
from diskplacer_measure.sizing import samples
from nova_diskplacer import exception
from nova_diskplacer.host import cpus
from tests import configured
from tests.fakes import libvirt as fake_libvirt
from tests.unit.nova_diskplacer.agent import guests

HOST = cpus.HostCpus(frozenset(range(4)), {0: frozenset(range(4))})


class Guest(guests.Guest):
    """A server that also tells where its vCPUs may run."""

    def vcpuPinInfo(self, flags):  # noqa: N802
        allowed = self.allowed(HOST)
        return [
            tuple(cpu in allowed['vcpu', number] for cpu in range(4))
            for number in range(self.vcpus)
        ]


def cpu_set(text):
    return cpus.parse(text)


@ddt.ddt
class CheckTest(base.BaseTestCase):
    def check(self, text, shared=None, dedicated=None, mark=None, **guest):
        one = Guest(specs={}, **guest)
        one.mark = mark
        pinning.check(
            one.seen(),
            cpu_set(text),
            HOST,
            cpus.NovaCpuSets(
                shared and cpu_set(shared), dedicated and cpu_set(dedicated)
            ),
        )

    @ddt.data('0-1', '1-3', '0-3')
    def test_good(self, text):
        self.check(text)

    def test_as_many_as_vcpus(self):
        self.check('2,3', shared='2-3')

    @ddt.data(
        ({'text': '2'}, '--pin 2: server', '2 vCPUs and needs as many CPUs'),
        ({'text': '3-4'}, '--pin 3-4', 'may use CPUs 0-3 only'),
        ({'text': '0-1', 'shared': '1-3'}, '--pin 0-1', 'CPUs 1-3 only'),
        ({'text': '0-1', 'dedicated': '0'}, '--pin 0-1', 'CPUs 1-3 only'),
        (
            {'text': '0-1', 'confined': cpu_set('2-3')},
            '--pin 0-1',
            'CPUs 2-3 only',
        ),
        ({'text': '0-1', 'mark': 0}, 'diskplacer-agent pins', 'numa'),
        (
            {'text': '0-1', 'extra': '<cpu><numa/></cpu>'},
            'Nova pins server',
            'hw:cpu_policy',
        ),
    )
    @ddt.unpack
    def test_bad(self, arguments, *messages):
        error = self.assertRaises(errors.SizingError, self.check, **arguments)
        for message in messages:
            self.assertIn(message, str(error))


class ChangedTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        options = self.useFixture(configured.Options())
        self.conf = options.conf
        self.directory = os.path.join(options.state_dir, 'sizing')
        self.guest = Guest(specs={}, iothreads=0)
        self.libvirt = fake_libvirt.FakeLibvirt(self.guest)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.host.libvirt_connection.import_libvirt',
                lambda: self.libvirt,
            )
        )

    def vcpus(self):
        """Return the CPUs of each vCPU."""
        allowed = self.guest.allowed(HOST)
        return [cpus.render(allowed['vcpu', one]) for one in range(2)]

    def changed(self, text='1-3'):
        return pinning.changed(self.conf, guests.UUID, cpu_set(text))

    def saved(self):
        return os.listdir(self.directory)

    def test_pinned_and_floating(self):
        with self.changed() as pins:
            self.assertEqual(['0-3', '0-3'], self.vcpus())
            pins.apply(samples.PINNED)
            self.assertEqual(['1', '2'], self.vcpus())
            pins.apply(samples.FLOATING)
            self.assertEqual(['1-3', '1-3'], self.vcpus())
            pins.apply(samples.PINNED)
        self.assertEqual(['0-3', '0-3'], self.vcpus())
        self.assertEqual([], self.saved())
        self.assertEqual(len(self.libvirt.uris), self.libvirt.closed)
        # QEMU's other threads stay where they are
        self.assertEqual({'vcpu'}, {one.kind for one in self.guest.pins})

    def test_restored_after_an_error(self):
        def fail():
            with self.changed() as pins:
                pins.apply(samples.PINNED)
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, fail)
        self.assertEqual(['0-3', '0-3'], self.vcpus())
        self.assertEqual([], self.saved())

    def kill(self):
        """Leave what a process leaves that is killed with pinned vCPUs."""
        context = self.changed('2-3')
        context.__enter__().apply(samples.PINNED)
        self.assertEqual(['2', '3'], self.vcpus())
        # without this the end of the generator would clean up
        self.addCleanup(lambda: context)
        return context

    def test_restored_after_a_kill(self):
        self.kill()
        with self.changed() as pins:
            # those that the server had at first are saved again
            self.assertEqual(['0-3', '0-3'], self.vcpus())
            pins.apply(samples.PINNED)
        self.assertEqual(['0-3', '0-3'], self.vcpus())

    def test_a_server_that_was_started_anew_since(self):
        self.kill()
        self.guest.start()
        self.guest.pinVcpuFlags(0, (True,), 1)
        with self.changed():
            self.assertEqual(['0', '0-3'], self.vcpus())
        self.assertEqual(['0', '0-3'], self.vcpus())

    def test_a_server_that_was_deleted_since(self):
        self.kill()
        self.guest.uuid = 'another'
        with pinning.changed(self.conf, 'another', cpu_set('0-1')):
            self.assertEqual(['another.json'], self.saved())
        self.assertEqual([], self.saved())

    def test_deleted_during_the_experiment(self):
        with self.changed() as pins:
            pins.apply(samples.PINNED)
            self.libvirt.running.clear()
        self.assertEqual([], self.saved())

    def test_libvirt_refuses(self):
        self.libvirt.running.clear()
        error = self.assertRaises(
            exception.HypervisorError, self.changed().__enter__
        )
        self.assertIn(f'pin server {guests.UUID}', str(error))

    def test_no_libvirt(self):
        self.libvirt = None
        error = self.assertRaises(errors.SizingError, self.changed().__enter__)
        self.assertIn('libvirt-python', str(error))
