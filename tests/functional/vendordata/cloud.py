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

"""Keystone and Nova's API, as far as the service meets them, by HTTP."""

import http.server
import json
import threading
import uuid

import fixtures
from keystoneauth1 import fixture as ks_fixture


class Cloud(fixtures.Fixture):
    """Issues and validates tokens, and shows servers to one account.

    :ivar url: of Keystone.
    :ivar servers: what Nova shows, by ID.
    :ivar hangs: whether Nova takes requests and never answers.
    :ivar asked: paths of the requests to Nova.
    """

    def __init__(self):
        super().__init__()
        self.servers = {}
        self.asked = []
        self.hangs = False
        self.ended = threading.Event()
        self._tokens = {}

    def _setUp(self):
        server = http.server.ThreadingHTTPServer(
            ('127.0.0.1', 0), lambda *args: _Handler(self, *args)
        )
        self.url = f'http://127.0.0.1:{server.server_port}'
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.addCleanup(self.ended.set)

    def account(self, name):
        """Return the options of the account that has one role, its name."""
        return {
            'auth_type': 'v3password',
            'auth_url': f'{self.url}/v3',
            'username': name,
            'password': 'secret',
            'user_domain_id': 'default',
            'project_name': 'service',
            'project_domain_id': 'default',
        }

    def issue(self, name):
        """Return a token of an account and its ID."""
        token = ks_fixture.V3Token(user_name=name)
        token.set_project_scope()
        token.add_role(name=name)
        for service, path in (('identity', ''), ('compute', '/compute')):
            token.add_service(service).add_standard_endpoints(
                public=self.url + path, internal=self.url + path
            )
        key = uuid.uuid4().hex
        self._tokens[key] = token
        return key, token

    def token(self, key):
        """Return the token of an ID, None if there is none."""
        return self._tokens.get(key)


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, cloud, *args):
        self._cloud = cloud
        super().__init__(*args)

    def log_message(self, *args):
        pass

    def _answer(self, status, body, **headers):
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        """Issue a token."""
        size = int(self.headers['Content-Length'])
        asked = json.loads(self.rfile.read(size))
        identity = asked['auth']['identity']['password']['user']
        key, token = self._cloud.issue(identity['name'])
        self._answer(201, token, X_Subject_Token=key)

    def do_GET(self):
        """Validate a token, show a server or tell Keystone's versions."""
        if self.path.startswith('/v3/auth/tokens'):
            found = self._cloud.token(self.headers['X-Subject-Token'])
            self._answer(200 if found else 404, found or {})
        elif self.path.startswith('/compute/'):
            self._cloud.asked.append(self.path)
            if self._cloud.hangs:
                self._cloud.ended.wait()
            else:
                self._show(self.path.removeprefix('/compute/servers/'))
        else:
            # it chooses among them
            self._answer(
                300, ks_fixture.DiscoveryList(self._cloud.url, v2=False)
            )

    def _show(self, server):
        token = self._cloud.token(self.headers['X-Auth-Token'])
        if 'admin' in (token.role_names if token else ()):
            self._answer(200, {'server': self._cloud.servers[server]})
        else:
            self._answer(401, {})
