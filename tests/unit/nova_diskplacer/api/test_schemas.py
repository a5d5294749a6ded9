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

"""Tests of Nova's schemas, with all microversions of the installed Nova."""

import unittest
from unittest import mock

from nova import exception as nova_exc
from nova.api.openstack import api_version_request
from nova.api.openstack import wsgi
from nova.api.openstack.compute import servers

from nova_diskplacer import exception
from nova_diskplacer.api import schemas

BODY = {'server': {'name': 's', 'flavorRef': '42'}}


def versions():
    last = api_version_request.max_api_version().ver_minor
    return [f'2.{minor}' for minor in range(1, last + 1)]


def request(version):
    made = wsgi.Request.blank('/servers')
    made.api_version_request = api_version_request.APIVersionRequest(version)
    return made


class SchemasTest(unittest.TestCase):
    def setUp(self):
        self.check = schemas.check()

    def _accepts(self, body, version, is_legacy=False):
        asked = request(version)
        if is_legacy:
            asked.set_legacy_v2()
        try:
            self.check(req=asked, body=body)
        except nova_exc.ValidationError:
            return False
        return True

    def test_every_microversion_has_one(self):
        for version in versions():
            with self.subTest(version=version):
                self.assertFalse(self._accepts({}, version))
                one = {'networks': 'none', **BODY['server']}
                if request(version).api_version_request.ver_minor < 37:
                    del one['networks']
                self.assertTrue(self._accepts({'server': one}, version))

    def test_what_a_microversion_brings(self):
        body = {'server': {**BODY['server'], 'networks': 'none'}}
        blank = {'source_type': 'blank', 'volume_type': 'vdisk'}
        body['server']['block_device_mapping_v2'] = [blank]
        self.assertFalse(self._accepts(body, '2.66'))
        self.assertTrue(self._accepts(body, '2.67'))

    def test_the_old_root_ignores_what_it_does_not_know(self):
        body = {'server': {**BODY['server'], 'imageRef': 'x'}}
        self.assertFalse(self._accepts(body, '2.1', is_legacy=True))
        body = {'server': {**BODY['server'], 'unknown': 1}}
        self.assertTrue(self._accepts(body, '2.1', is_legacy=True))
        self.assertEqual(BODY, body)

    def test_a_nova_that_holds_them_elsewhere(self):
        with (
            mock.patch.object(
                servers.ServersController, 'create', lambda self, req: None
            ),
            self.assertRaisesRegex(exception.DiskPlacerError, 'schemas'),
        ):
            schemas.check()
