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

"""What the kernel's own files show is in tests/testbed/io_weights."""

import json
import os
import pathlib

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs
from nova_diskplacer.host.devices import Device
from nova_diskplacer.io_weights import controllers
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import types
from tests import configured

A = Device('uuid-a', 'sda', '8:0', rotational=True)
B = Device('uuid-b', 'sdb', '8:16', rotational=True)
BFQ = controllers.Controller('bfq', 'io.bfq.weight')
IO_COST = controllers.Controller('io.cost', 'io.weight')
DEFAULT = 'default'


class Kernel(fixtures.Fixture):
    """Cgroups whose files with weights work as the kernel's do.

    ``weights`` has what is in each file, by cgroup, file and device.
    """

    def _setUp(self):
        self.path = self.useFixture(fixtures.TempDir()).path
        self.hierarchy = cgroups.Hierarchy(f'{self.path}/cgroup')
        self.weights = {}
        self.refusing = set()
        self.written = []
        for device, sequence in ((A, '7'), (B, '8')):
            self.plug(device, sequence)
        patch = fixtures.MockPatchObject
        self.useFixture(patch(writer, 'read_weight', self.read))
        self.useFixture(patch(writer, 'write_weight', self.write))

    def plug(self, device, sequence):
        path = pathlib.Path(self.path, 'class/block', device.name)
        path.mkdir(parents=True, exist_ok=True)
        path.joinpath('dev').write_text(f'{device.number}\n')
        path.joinpath('size').write_text('2048\n')
        path.joinpath('diskseq').write_text(f'{sequence}\n')

    def add(self, cgroup, *files):
        for file in files:
            path = pathlib.Path(self.hierarchy.path(cgroup, file))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            self.weights[str(path)] = {DEFAULT: '100'}

    def remove(self, cgroup):
        home = pathlib.Path(self.hierarchy.path(cgroup))
        for path in home.iterdir():
            path.unlink()
            del self.weights[str(path)]
        home.rmdir()

    def of(self, cgroup, file='io.weight'):
        return self.weights[self.hierarchy.path(cgroup, file)]

    def read(self, path, number):
        if path not in self.weights:
            raise FileNotFoundError(2, 'No such file or directory')
        return self.weights[path].get(number, DEFAULT)

    def write(self, path, number, value):
        if path not in self.weights:
            raise FileNotFoundError(2, 'No such file or directory')
        if path in self.refusing:
            raise PermissionError(1, 'Operation not permitted')
        self.written.append((path, number, value))
        if number == DEFAULT and path.endswith('bfq.weight'):
            self.weights[path].clear()
        if value == DEFAULT:
            self.weights[path].pop(number, None)
        else:
            self.weights[path][number] = value


class WeightsTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.kernel = self.useFixture(Kernel())
        configuration = self.useFixture(configured.Options())
        self.conf, self.state = configuration.conf, configuration.state_dir
        self.weights = self.agent()
        self.devices = {A.uuid: A, B.uuid: B}
        self.controllers = {A.uuid: IO_COST, B.uuid: IO_COST}
        self.consumers = {}

    def agent(self):
        return writer.WeightWriter(
            self.conf, self.kernel.hierarchy, self.kernel.path
        )

    def add(self, key, cgroup=None, files=('io.weight',)):
        self.kernel.add(cgroup or key, *files)
        self.consumers[key] = types.Consumer(key, cgroup or key)

    def apply(self, wanted, rounds=1):
        for _ in range(rounds):
            errors = self.weights.apply(
                wanted,
                self.consumers.values(),
                self.devices,
                self.controllers,
            )
        return errors

    def saved(self):
        """Return the originals that are saved, by disk."""
        directory = pathlib.Path(self.state, 'weights')
        return {
            path.stem: json.loads(path.read_text())['values']
            for path in directory.glob('*.json')
        }


class TestWeights(WeightsTestCase):
    def test_only_changes_are_written(self):
        for key in ('one', 'two', 'three'):
            self.add(key)
        wanted = {
            ('one', A.uuid): 10,
            ('one', B.uuid): 100,
            ('two', A.uuid): 20,
            ('three', A.uuid): 100,
        }
        self.assertEqual({}, self.apply(wanted))
        self.assertEqual({DEFAULT: '100', '8:0': '10'}, self.kernel.of('one'))
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('three'))
        self.kernel.written.clear()
        self.assertEqual({}, self.apply(wanted, 40))
        self.assertEqual([], self.kernel.written)
        self.apply({**wanted, ('two', A.uuid): 30})
        self.assertEqual(
            [(self.kernel.hierarchy.path('two', 'io.weight'), '8:0', '30')],
            self.kernel.written,
        )
        # a weight that was below the default is not left there
        self.apply({**wanted, ('two', A.uuid): 100})
        self.assertEqual({DEFAULT: '100', '8:0': '100'}, self.kernel.of('two'))

    def test_saved_before_changed(self):
        self.add('one')
        self.kernel.of('one')['8:0'] = '300'
        path = self.kernel.hierarchy.path('one', 'io.weight')
        self.kernel.refusing.add(path)
        errors = self.apply({('one', A.uuid): 10})
        self.assertIn('cannot be set to 10', errors['one', A.uuid])
        self.assertEqual({A.uuid: {'one/io.weight': '300'}}, self.saved())
        self.kernel.refusing.clear()
        self.assertEqual({}, self.apply({('one', A.uuid): 10}))
        self.assertEqual({A.uuid: {'one/io.weight': '300'}}, self.saved())
        self.weights.restore()
        self.assertEqual('300', self.kernel.of('one')['8:0'])
        self.assertEqual({}, self.saved())

    def test_not_changed_unless_saved(self):
        self.add('one')
        pathlib.Path(self.state, 'weights').write_text('')
        self.assertRaises(
            exception.DiskError, self.apply, {('one', A.uuid): 10}
        )
        self.assertEqual([], self.kernel.written)

    def test_disk_with_malformed_saved_weights(self):
        self.add('one')
        os.mkdir(f'{self.state}/weights')
        pathlib.Path(self.state, 'weights', 'uuid-a.json').write_text('{')
        wanted = {('one', A.uuid): 10, ('one', B.uuid): 20}
        for _ in range(3):
            errors = self.apply(wanted)
            self.assertEqual([('one', A.uuid)], list(errors))
        self.assertEqual('20', self.kernel.of('one')['8:16'])
        self.assertNotIn('8:0', self.kernel.of('one'))
        self.assertEqual(1, self.log.output.count('uuid-a are not changed'))
        error = self.assertRaises(exception.DiskError, self.weights.restore)
        self.assertIn('uuid-a.json', str(error))
        self.assertNotIn('8:16', self.kernel.of('one'))

    def test_hard_reboot(self):
        self.add('server', 'machine/qemu-1-a')
        wanted = {('server', A.uuid): 10}
        self.apply(wanted)
        self.kernel.remove('machine/qemu-1-a')
        self.add('server', 'machine/qemu-2-a')
        self.assertEqual({}, self.apply(wanted))
        self.assertEqual('10', self.kernel.of('machine/qemu-2-a')['8:0'])
        self.assertEqual(
            {A.uuid: {'machine/qemu-2-a/io.weight': DEFAULT}}, self.saved()
        )

    def test_cgroup_or_consumer_is_gone(self):
        self.add('one')
        self.add('two')
        wanted = {('one', A.uuid): 10, ('two', A.uuid): 10}
        self.apply(wanted)
        self.kernel.remove('one')
        self.assertEqual({}, self.apply(wanted))
        del self.consumers['one'], wanted['one', A.uuid]
        self.assertEqual({}, self.apply(wanted))
        self.assertEqual({A.uuid: {'two/io.weight': DEFAULT}}, self.saved())
        del self.consumers['two']
        self.assertEqual({}, self.apply({}))
        self.assertEqual({}, self.saved())
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('two'))

    def test_another_agent_takes_over(self):
        self.add('one')
        self.add('two')
        self.apply({('one', A.uuid): 10, ('two', B.uuid): 20})
        self.weights = self.agent()
        self.assertEqual({}, self.apply({('one', A.uuid): 30}))
        self.assertEqual('30', self.kernel.of('one')['8:0'])
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('two'))
        self.weights = self.agent()
        self.weights.restore()
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('one'))

    def test_disk_in_another_slot(self):
        self.add('one')
        self.apply({('one', A.uuid): 10})
        self.kernel.plug(A, '9')
        del self.kernel.of('one')['8:0']
        moved = Device(A.uuid, 'sdc', '8:32', rotational=True)
        self.kernel.plug(moved, '10')
        self.devices[A.uuid] = moved
        self.assertEqual({}, self.apply({('one', A.uuid): 10}))
        # sda is another disk now, of which nothing was changed
        self.assertEqual({DEFAULT: '100', '8:32': '10'}, self.kernel.of('one'))

    def test_replaced_device_is_not_changed(self):
        self.add('one')
        self.apply({('one', A.uuid): 10})
        self.kernel.plug(A, '9')
        self.kernel.of('one')['8:0'] = '55'
        self.weights.restore()
        self.assertEqual('55', self.kernel.of('one')['8:0'])
        self.assertEqual({}, self.saved())

    def test_controller_changes(self):
        self.add('one', files=('io.weight', 'io.bfq.weight'))
        self.apply({('one', A.uuid): 10})
        self.controllers[A.uuid] = BFQ
        self.assertEqual({}, self.apply({('one', A.uuid): 10}))
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('one'))
        self.assertEqual('10', self.kernel.of('one', 'io.bfq.weight')['8:0'])

    def test_disk_without_weights(self):
        self.add('one')
        self.apply({('one', A.uuid): 10})
        del self.controllers[A.uuid]
        self.assertEqual({}, self.apply({}))
        self.assertEqual({DEFAULT: '100'}, self.kernel.of('one'))

    def test_cgroup_without_the_file(self):
        self.add('one', files=('io.bfq.weight',))
        for _ in range(3):
            errors = self.apply({('one', A.uuid): 10})
            self.assertIn(
                'one/io.weight does not exist', errors['one', A.uuid]
            )
        self.assertEqual(1, self.log.output.count('does not exist'))

    def test_weight_changed_by_something_else(self):
        self.add('one')
        for foreign in ('60', DEFAULT):
            self.apply({('one', A.uuid): 10})
            self.kernel.of('one')['8:0'] = foreign
            self.apply({('one', A.uuid): 10}, 30)
            self.assertEqual('10', self.kernel.of('one')['8:0'])
        self.assertEqual(1, self.log.output.count('Something else'))


class TestFormerDefaultWeights(WeightsTestCase):
    """Earlier releases changed the default weights of servers as well."""

    def setUp(self):
        super().setUp()
        self.add('one', files=('io.bfq.weight',))
        self.controllers[A.uuid] = BFQ
        self.weights_of = self.kernel.of('one', 'io.bfq.weight')
        self.weights_of.update({DEFAULT: '40', '8:0': '40'})
        boot_id = saved_settings.boot_id()
        os.mkdir(f'{self.state}/weights')
        for uuid, device, sequence, value in (
            ('default', '', '', '100'),
            (A.uuid, 'sda', '7', '250'),
        ):
            fields = {
                'version': 1,
                'boot_id': boot_id,
                'device': device,
                'sequence': sequence,
                'values': {'one/io.bfq.weight': value},
            }
            path = pathlib.Path(self.state, 'weights', f'{uuid}.json')
            path.write_text(json.dumps(fields))

    def test_restore(self):
        self.weights.restore()
        # BFQ applies a new default to all devices
        self.assertEqual({DEFAULT: '100', '8:0': '250'}, self.weights_of)
        self.assertEqual({}, self.saved())

    def test_apply(self):
        self.assertEqual({}, self.apply({('one', A.uuid): 30}))
        self.assertEqual({DEFAULT: '100', '8:0': '30'}, self.weights_of)
        self.assertEqual({A.uuid: {'one/io.bfq.weight': '250'}}, self.saved())


class FileTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.home = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.useFixture(
            fixtures.MockPatchObject(
                sysfs,
                'write_to_device',
                lambda device, path, text: pathlib.Path(path).write_text(text),
            )
        )

    def written(self, file, before, value):
        """Return what is written to a file to set the weight of 8:0."""
        path = self.home / file
        path.write_text(before)
        writer.write_weight(str(path), '8:0', value)
        return path.read_text()

    def test_read(self):
        path = self.home / 'io.weight'
        path.write_text('default 100\n8:0 10\n')
        for number, weight in (
            ('8:0', '10'),
            ('8:16', 'default'),
            ('default', '100'),
        ):
            self.assertEqual(weight, writer.read_weight(str(path), number))

    def test_write(self):
        for file in ('io.weight', 'io.bfq.weight'):
            self.assertEqual(
                '8:0 10', self.written(file, 'default 100\n', '10')
            )

    def test_remove(self):
        self.assertEqual(
            '8:0 default',
            self.written('io.weight', 'default 100\n8:0 10\n', 'default'),
        )

    def test_remove_of_bfq(self):
        for before, written in (
            ('default 100\n8:0 10\n', 'default 100'),
            ('default 100\n', 'default 100'),
            ('default 70\n8:0 10\n8:16 70\n', 'default 70'),
            ('default 100\n8:0 10\n8:16 30\n', '8:0 100'),
        ):
            self.assertEqual(
                written, self.written('io.bfq.weight', before, 'default')
            )
