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

import json
import os
import pathlib
import shutil

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.host import saved_settings

UUID = '0a4c7a40-4cb2-4a5c-8f3e-6a4bd2b5d3f1'
OTHER = '1b5d8b51-5dc3-4b6d-9f4f-7b5ce3c6e402'
SETTINGS = saved_settings.DeviceSettings('sda', '7', {'scheduler': 'none'})

# as all releases have written it
FILE = {
    'version': 1,
    'boot_id': 'boot',
    'device': 'sda',
    'sequence': '7',
    'values': {'scheduler': 'none'},
}


class SavedSettingsTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        path = self.useFixture(fixtures.TempDir()).path
        self.directory = os.path.join(path, 'state', 'queues')
        self.path = os.path.join(self.directory, UUID + '.json')
        self.sys = os.path.join(path, 'sys')
        self.plug('sda', '7')
        self.boot('boot')
        self.restored = []
        self.result = True
        self.saved = self.start()

    def plug(self, device, sequence):
        path = pathlib.Path(self.sys, 'class/block', device)
        path.mkdir(parents=True, exist_ok=True)
        path.joinpath('dev').write_text('8:0\n')
        path.joinpath('diskseq').write_text(f'{sequence}\n')

    def boot(self, boot_id):
        patch = fixtures.MockPatchObject(
            saved_settings, 'boot_id', lambda: boot_id
        )
        self.useFixture(patch)

    def start(self):
        """Return the saved settings as a new process sees them."""
        return saved_settings.SavedSettings(
            self.directory, self.write_back, self.sys
        )

    def write_back(self, saved):
        self.restored.append(saved)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def write(self, text):
        os.makedirs(self.directory, exist_ok=True)
        with open(self.path, 'w', encoding='utf-8') as stream:
            stream.write(text)

    def test_nothing_saved(self):
        self.assertEqual([], self.saved.uuids())
        self.assertIsNone(self.saved.get_originals(UUID, 'sda', '7'))
        self.saved.restore(UUID)
        self.assertEqual([], self.restored)

    def test_save_and_restore(self):
        self.saved.save(UUID, SETTINGS)
        with open(self.path, encoding='utf-8') as stream:
            self.assertEqual(FILE, json.load(stream))
        for saved in (self.saved, self.start()):
            self.assertEqual([UUID], saved.uuids())
            self.assertEqual(
                {'scheduler': 'none'}, saved.get_originals(UUID, 'sda', '7')
            )
        again = self.start()
        again.restore(UUID)
        self.assertEqual([SETTINGS], self.restored)
        self.assertEqual([], again.uuids())
        self.assertIsNone(again.get_originals(UUID, 'sda', '7'))

    def test_another_process_restores_what_this_one_changes_again(self):
        self.saved.save(UUID, SETTINGS)
        self.start().restore(UUID)
        self.assertEqual([], self.saved.uuids())
        self.assertEqual(
            {'scheduler': 'none'}, self.saved.get_originals(UUID, 'sda', '7')
        )
        self.assertEqual([UUID], self.start().uuids())

    def test_file_of_an_earlier_release(self):
        self.write(json.dumps(FILE))
        self.assertEqual(
            {'scheduler': 'none'}, self.saved.get_originals(UUID, 'sda', '7')
        )
        self.saved.restore(UUID)
        self.assertEqual([SETTINGS], self.restored)

    def test_no_values(self):
        self.saved.save(UUID, SETTINGS)
        empty = saved_settings.DeviceSettings('sda', '7', {})
        self.saved.save(UUID, empty)
        self.assertEqual([], self.saved.uuids())
        self.assertIsNone(self.saved.get_originals(UUID, 'sda', '7'))

    def test_restored_later(self):
        self.saved.save(UUID, SETTINGS)
        self.result = False
        self.saved.restore(UUID)
        self.assertEqual([UUID], self.saved.uuids())
        self.result = OSError('refused')
        self.assertRaises(OSError, self.saved.restore, UUID)
        self.assertEqual([UUID], self.start().uuids())
        self.result = True
        self.saved.restore(UUID)
        self.assertEqual([SETTINGS] * 3, self.restored)
        self.assertEqual([], self.saved.uuids())

    def test_settings_of_another_boot(self):
        self.saved.save(UUID, SETTINGS)
        self.boot('another')
        later = self.start()
        self.assertEqual([UUID], later.uuids())
        self.assertIsNone(later.get_originals(UUID, 'sda', '7'))
        later.restore(UUID)
        self.assertEqual([], self.restored)
        self.assertEqual([], later.uuids())

    def test_device_is_replaced_or_gone(self):
        for change in (
            lambda: self.plug('sda', '8'),
            lambda: shutil.rmtree(f'{self.sys}/class/block/sda'),
        ):
            self.saved.save(UUID, SETTINGS)
            change()
            self.saved.restore(UUID)
            self.assertEqual([], self.restored)
            self.assertEqual([], self.saved.uuids())

    def test_disk_has_another_device(self):
        self.saved.save(UUID, SETTINGS)
        self.plug('sdb', '8')
        self.assertIsNone(self.saved.get_originals(UUID, 'sdb', '8'))
        # the former one is still there
        self.assertEqual([SETTINGS], self.restored)
        self.assertEqual([], self.saved.uuids())

    def test_settings_of_all_devices(self):
        settings = saved_settings.DeviceSettings('', '', {'weight': '100'})
        self.saved.save('default', settings)
        self.start().restore('default')
        self.assertEqual([settings], self.restored)

    def test_restore_all(self):
        self.write('{')
        self.saved.save(OTHER, SETTINGS)
        error = self.assertRaises(
            exception.DiskError, self.saved.restore_all, [UUID, OTHER]
        )
        self.assertIn(f'disk {UUID}: {self.path} does not', str(error))
        self.assertNotIn(OTHER, str(error))
        self.assertEqual([SETTINGS], self.restored)
        self.assertEqual([UUID], self.saved.uuids())

    def test_killed_while_saving(self):
        self.write('')
        os.rename(self.path, self.path + '.diskplacer')
        self.assertEqual([], self.saved.uuids())
        self.saved.save(UUID, SETTINGS)
        self.assertEqual([UUID + '.json'], os.listdir(self.directory))

    def test_malformed(self):
        for text in (
            '',
            '{',
            '[]',
            '{}',
            json.dumps({**FILE, 'version': 2}),
            json.dumps({**FILE, 'values': {'nr_requests': 7}}),
            json.dumps({**FILE, 'values': []}),
        ):
            self.write(text)
            for function, arguments in (
                (self.saved.get_originals, (UUID, 'sda', '7')),
                (self.saved.restore, (UUID,)),
            ):
                error = self.assertRaises(
                    exception.DiskError, function, *arguments
                )
                self.assertIn(f'{self.path} does not contain', str(error))
        self.assertEqual([], self.restored)
        self.assertEqual([UUID], self.saved.uuids())

    def test_cannot_be_saved(self):
        os.makedirs(os.path.dirname(self.directory))
        with open(self.directory, 'w', encoding='utf-8'):
            pass
        error = self.assertRaises(
            exception.DiskError, self.saved.save, UUID, SETTINGS
        )
        self.assertIn(self.directory, str(error))


class BootIDTest(base.BaseTestCase):
    def test_boot_id(self):
        self.assertEqual(36, len(saved_settings.boot_id()))
        self.assertEqual(saved_settings.boot_id(), saved_settings.boot_id())
