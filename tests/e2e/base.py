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


"""One cloud of real services for all end-to-end tests.

It is started by the first test and taken down when the test process ends.
``DISKPLACER_CLOUD`` names the directory of a cloud to use as it is instead,
such as one that ``tools/demo.sh --keep`` left.
"""

import atexit
import datetime
import functools
import os
import pathlib
import signal
import sys
import tempfile
import types
import typing

import testtools

from tools.minicloud import checks
from tools.minicloud import process
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud

VDISKS = 4
GIB = 2**30
# seconds: processors are emulated, and shared with all else that goes on
GUEST_TIMEOUT = 900


def say(text: str) -> None:
    # standard output is the test runner's
    print(text, file=sys.stderr, flush=True)


def _end(number: int, frame: types.FrameType | None) -> None:
    sys.exit(128 + number)


def end_at_sigterm() -> None:
    """Have SIGTERM end the process as if it returned."""
    signal.signal(signal.SIGTERM, _end)


@functools.cache
def shared_cloud() -> Cloud:
    """Return the cloud, which is up."""
    existing = os.environ.get('DISKPLACER_CLOUD')
    if existing:
        cloud = Cloud(pathlib.Path(existing), say=say)
        cloud.attach()
        return cloud
    directory = tempfile.mkdtemp(prefix='diskplacer-e2e-', dir='/var/tmp')
    cloud = Cloud(pathlib.Path(directory), say=say)
    end_at_sigterm()
    atexit.register(cloud.stop)
    cloud.start()
    return cloud


class TestCase(testtools.TestCase):
    """A test on the shared cloud; leaves no servers and volumes there."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = shared_cloud()
        self.api = self.cloud.api
        begun = str(datetime.datetime.now())
        self.addOnException(lambda _: say(self.cloud.errors(begun)))
        self.addCleanup(self._clean)

    def _clean(self) -> None:
        servers = self.api.get('compute', '/servers?all_tenants=1')['servers']
        for server in servers:
            self.discard('compute', f'/servers/{server["id"]}')
        for server in servers:
            self.api.wait_server_gone(server['id'])

        def gone() -> bool:
            volumes = self.api.volumes()
            for volume in volumes:
                if volume['status'] in ('available', 'error'):
                    self.discard('volumev3', f'/volumes/{volume["id"]}')
            return not volumes

        self.eventually('volumes gone', gone)

    def discard(
        self, service: str, path: str, body: typing.Any = None
    ) -> None:
        """Ask to delete something, which may be busy or going already.

        :param body: what to post, if that is how it is deleted.
        """
        try:
            if body:
                self.api.post(service, path, body)
            else:
                self.api.delete(service, path)
        except ApiError as error:
            if error.status not in (400, 404, 409):
                raise

    def request(
        self,
        mapping: str = 'plain',
        host: str | None = None,
        **options: typing.Any,
    ) -> str:
        """Ask for a server, on ``host`` if given, and return its id."""
        return self.api.create_server(
            self.id().rsplit('.', 1)[-1],
            self.cloud.flavors[
                mapping if mapping == 'plain' else f'{mapping}-{VDISKS}'
            ],
            self.cloud.image,
            **({'host': host} if host else {}),
            **options,
        )

    def boot(self, mapping: str = 'plain', host: str | None = None) -> str:
        """Boot a server and return its id once it is active."""
        server = self.request(mapping, host)
        self.api.wait_server(server)
        return server

    def disks_of(self, server: str) -> checks.Disks:
        """Return {volume id: disk}, as the files on the disks tell."""
        host = self.api.server(server)['OS-EXT-SRV-ATTR:host']
        volumes = self.api.attachments(server)
        return {
            volume: disk
            for volume, disk in checks.by_files(self.cloud, host).items()
            if volume in volumes
        }

    def eventually(
        self,
        what: str,
        ready: typing.Callable[[], object],
        timeout: float = 300,
    ) -> None:
        """Fail unless ``ready`` returns something true in time (seconds)."""
        process.wait(what, ready, timeout, 1)

    def statuses(self, server: str) -> list[str]:
        """Return the status of each vdisk in the map of a server."""
        found = self.cloud.map('--server', server)['servers']
        return [vdisk['status'] for one in found for vdisk in one['vdisks']]

    def assert_mapped(self, server: str, mapping: str) -> None:
        """Check files, claims and map of a server against its mapping."""
        actual = self.disks_of(server)
        self.assertEqual(VDISKS, len(actual))
        self.assertTrue(
            checks.mapped_as_asked(
                mapping.replace('-', '_'), list(actual.values())
            ),
            actual,
        )
        claims = checks.claims(self.cloud, server)
        self.assertEqual(VDISKS, sum(claims.values()))
        self.assertEqual(actual, checks.claimed_disks(actual, claims, 1))
        self.eventually(
            'map', lambda: self.statuses(server) == ['ok'] * VDISKS
        )
