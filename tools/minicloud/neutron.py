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


"""A stand-in for Neutron: no networks, ports or anything else.

Nova asks Neutron on every build and show, even for servers without networks.
Every GET is answered with an empty list of what it asks for, except that
for a quota: there is no limit.
"""

import http.server
import json
import sys
import urllib.parse


class Handler(http.server.BaseHTTPRequestHandler):
    """Answer every request with nothing found."""

    protocol_version = 'HTTP/1.1'

    def do_GET(self) -> None:
        path = urllib.parse.urlparse(self.path).path
        name = path.rstrip('/').rsplit('/', 1)[-1]
        name = name.removesuffix('.json').replace('-', '_') or 'versions'
        content = {'quota': {}} if '/quotas/' in path else {name: []}
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == '__main__':
    address = ('127.0.0.1', int(sys.argv[1]))
    http.server.ThreadingHTTPServer(address, Handler).serve_forever()
