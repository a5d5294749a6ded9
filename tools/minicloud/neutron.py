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


"""A stand-in for Neutron, with nothing or with one network.

Nova asks Neutron on every build and show, even for servers without networks.
Every list that there is not is empty, and a quota has no limit.

    python -m tools.minicloud.neutron PORT [network]
"""

import http.server
import json
import sys
import threading
import urllib.parse

from tools.minicloud.network import Networking
from tools.minicloud.network import Resource


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers a request from ``networking``."""

    protocol_version = 'HTTP/1.1'
    networking: Networking
    lock = threading.Lock()

    def do_GET(self) -> None:
        kind, identity, query = self._named()
        with self.lock:
            if not kind:
                self._answer(200, {'versions': [self._version()]})
            elif kind == 'quotas':
                self._answer(200, {'quota': {}})
            elif identity:
                self._answer_with(kind, identity)
            else:
                found = self.networking.find(kind, query)
                self._answer(200, {kind: found})

    def do_POST(self) -> None:
        kind, _, _ = self._named()
        body = self._body()
        with self.lock:
            if kind == 'ports':
                port = self.networking.create_port(body['port'])
                self._answer(201, {'port': port})
            else:
                self._answer_not_found()

    def do_PUT(self) -> None:
        kind, identity, _ = self._named()
        body = self._body()
        with self.lock:
            found = self.networking.resources.get(kind, {}).get(identity)
            if found is not None:
                found.update(body[kind[:-1]])
            self._answer_with(kind, identity)

    def do_DELETE(self) -> None:
        kind, identity, _ = self._named()
        with self.lock:
            found = self.networking.resources.get(kind, {})
            if found.pop(identity, None) is None:
                self._answer_not_found()
            else:
                self._answer(204)

    def _named(self) -> tuple[str, str, dict[str, list[str]]]:
        """Return the kind and the ID that a request names, and its query."""
        url = urllib.parse.urlparse(self.path)
        words = [word for word in url.path.split('/') if word]
        if words[:1] == ['v2.0']:
            del words[0]
        kind, identity = (
            word.removesuffix('.json') for word in [*words, '', ''][:2]
        )
        query = urllib.parse.parse_qs(url.query)
        return kind.replace('-', '_'), identity, query

    def _version(self) -> Resource:
        link = {'rel': 'self', 'href': f'http://{self.headers["Host"]}/v2.0/'}
        return {'id': 'v2.0', 'status': 'CURRENT', 'links': [link]}

    def _body(self) -> Resource:
        length = int(self.headers.get('Content-Length') or 0)
        body: Resource = json.loads(self.rfile.read(length) or b'{}')
        return body

    def _answer_with(self, kind: str, identity: str) -> None:
        found = self.networking.resources.get(kind, {}).get(identity)
        if found is None:
            self._answer_not_found()
        else:
            self._answer(200, {kind[:-1]: found})

    def _answer_not_found(self) -> None:
        error = {'type': 'NotFound', 'message': self.path, 'detail': ''}
        self._answer(404, {'NeutronError': error})

    def _answer(self, status: int, content: Resource | None = None) -> None:
        body = b'' if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == '__main__':
    address = ('127.0.0.1', int(sys.argv[1]))
    Handler.networking = Networking(address[1], sys.argv[2:] == ['network'])
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()
