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

"""HTTP services in the same process."""

import datetime
import json
import re
from urllib import parse

import fixtures
from wsgi_intercept import interceptor

NOVA = 'http://nova.test:80/v2.1'
PLACEMENT = 'http://placement.test:80/placement'


class Intercept(fixtures.Fixture):
    """Has a WSGI application answer at a URL."""

    def __init__(self, url, application):
        super().__init__()
        self._url = url
        self._application = application

    def _setUp(self):
        intercept = interceptor.RequestsInterceptor(
            lambda: self._application, url=self._url
        )
        intercept.install_intercept()
        self.addCleanup(intercept.uninstall_intercept)


class NovaAPI(fixtures.Fixture):
    """A Nova API that knows just the servers that it is told of.

    Answers GET /servers/{id}, /servers, /servers/detail (of a host, a project
    and a task, if they are named), the actions of a server, and /os-migrations
    and /os-services, of which there are none at first; 503 while ``down``.

    ``requests`` holds (path, microversion) of each request.
    """

    def __init__(self):
        super().__init__()
        self.servers = {}
        self.actions = {}
        self.migrations = []
        self.services = []
        self.requests = []
        self.down = False

    def _setUp(self):
        self.useFixture(Intercept(NOVA, self._application))

    def add(self, uuid, project_id, host, extra_specs=None, launched=True):
        """Add a server as microversion 2.47 shows it to an admin."""
        self.actions[uuid] = []
        self.servers[uuid] = {
            'id': uuid,
            'status': 'ACTIVE',
            'tenant_id': project_id,
            'OS-EXT-STS:task_state': None,
            'OS-EXT-SRV-ATTR:host': host,
            'OS-SRV-USG:launched_at': '2026-11-22' if launched else None,
            'flavor': {'extra_specs': extra_specs or {}},
        }

    def build(self, uuid, request_id):
        """Have a server be one whose volumes are created at present."""
        self.servers[uuid] |= {
            'status': 'BUILD',
            'OS-EXT-STS:task_state': 'block_device_mapping',
            # of one request
            'OS-EXT-SRV-ATTR:reservation_id': f'r-{request_id}',
        }
        self.actions[uuid] = [{'action': 'create', 'request_id': request_id}]

    def _application(self, environ, start_response):
        path = environ['PATH_INFO']
        self.requests.append((path, environ.get('HTTP_OPENSTACK_API_VERSION')))
        query = parse.parse_qs(environ.get('QUERY_STRING', ''))
        found = re.search('/servers/([^/]+)$', path)
        server = self.servers.get(found[1]) if found else None
        if self.down:
            status, body = '503 Service Unavailable', {}
        elif path.endswith(('/servers', '/servers/detail')):
            # all are on the first page
            page = [] if 'marker' in query else self._listed(query)
            status, body = '200 OK', {'servers': page}
        elif path.endswith('/os-instance-actions'):
            uuid = path.split('/')[-2]
            status, body = '200 OK', {'instanceActions': self.actions[uuid]}
        elif path.endswith('/os-migrations'):
            status, body = (
                '200 OK',
                {
                    'migrations': []
                    if 'marker' in query
                    else self._named(self.migrations, query)
                },
            )
        elif path.endswith('/os-services'):
            status, body = (
                '200 OK',
                {'services': self._named(self.services, query)},
            )
        elif server:
            status, body = '200 OK', {'server': server}
        else:
            status, body = '404 Not Found', {'itemNotFound': {'code': 404}}
        start_response(status, [('Content-Type', 'application/json')])
        return [json.dumps(body).encode()]

    def evacuate(self, uuid, host):
        """Have Nova attach the volumes of a server to another host."""
        self.servers[uuid]['OS-EXT-STS:task_state'] = (
            'rebuild_block_device_mapping'
        )
        self.migrations.append(
            {
                'id': len(self.migrations) + 1,
                'instance_uuid': uuid,
                'migration_type': 'evacuation',
                'status': 'pre-migrating',
                'dest_compute': host,
            }
        )

    def lose(self, host, seconds=3600):
        """Have nova-compute be forced down some time ago."""
        now = datetime.datetime(2026, 1, 1)
        last = now - datetime.timedelta(seconds=seconds)
        self.services = [
            {
                'binary': binary,
                'host': where,
                'state': state,
                'forced_down': state == 'down',
                'updated_at': updated.strftime('%Y-%m-%dT%H:%M:%S.%f'),
            }
            for binary, where, state, updated in (
                ('nova-compute', host, 'down', last),
                ('nova-conductor', 'controller', 'up', now),
            )
        ]

    def _named(self, items, query):
        """Return the items with the fields that a query names."""
        return [
            item
            for item in items
            if all(
                item.get(name, values[0]) == values[0]
                for name, values in query.items()
            )
        ]

    def _listed(self, query):
        wanted = {
            field: query[name][0]
            for name, field in (
                ('host', 'OS-EXT-SRV-ATTR:host'),
                ('project_id', 'tenant_id'),
                ('task_state', 'OS-EXT-STS:task_state'),
            )
            if name in query
        }
        return [
            one
            for one in self.servers.values()
            if wanted.items() <= one.items()
        ]
