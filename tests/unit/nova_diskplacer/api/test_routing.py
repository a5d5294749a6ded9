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

"""Tests of the requests that create servers, with all of Nova's routes."""

import unittest

from nova import context
from nova.api.openstack import wsgi
from nova.api.openstack.compute import routes

from nova_diskplacer.api import routing

PROJECT = '6f70656e737461636b'


class RouterTest(unittest.TestCase):
    def setUp(self):
        self.router = routing.Router()

    def _creates(self, path, method='POST'):
        request = wsgi.Request.blank(path, method=method)
        request.environ['nova.context'] = context.RequestContext(
            'user', PROJECT, is_admin=False
        )
        before = dict(request.environ)
        found = self.router.creates_servers(request)
        self.assertEqual(before, request.environ)
        return found

    def test_every_route_of_nova(self):
        creates = {
            (path, method)
            for path, methods in routes.ROUTE_LIST
            if not isinstance(methods, str)
            for method in methods
            if self._creates(path.replace('{', '').replace('}', ''), method)
        }
        self.assertEqual(
            {('/servers', 'POST'), ('/os-volumes_boot', 'POST')}, creates
        )

    def test_projects(self):
        self.assertTrue(self._creates(f'/{PROJECT}/servers'))
        self.assertTrue(self._creates(f'/{PROJECT}/os-volumes_boot'))
        # Nova answers both
        self.assertFalse(self._creates('/0123456789abcdef/servers'))
        self.assertFalse(self._creates('/nobodys/servers'))

    def test_methods_in_the_query(self):
        self.assertTrue(self._creates('/servers?_method=post', 'PUT'))
        self.assertFalse(self._creates('/servers?_method=GET'))
        # it has no body
        self.assertFalse(self._creates('/servers?_method=POST', 'GET'))
