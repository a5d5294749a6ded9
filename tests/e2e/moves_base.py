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


"""A cloud of two hosts with real guests, between which servers move."""

import atexit
import datetime
import pathlib
import tempfile
import typing

import testtools

from tests.e2e import base
from tools.minicloud import moving
from tools.minicloud.cloud import Cloud
from tools.storm import moved_server


class MovesTestCase(testtools.TestCase):
    cloud: typing.ClassVar[Cloud]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.mkdtemp(
            prefix='diskplacer-moves-', dir='/var/tmp'
        )
        cls.cloud = Cloud(
            pathlib.Path(directory), moved_server.HOSTS, say=base.say
        )
        # until a host is lost
        cls.cloud.state.volumes_down = 60
        base.end_at_sigterm()
        atexit.register(cls.cloud.stop)
        cls.addClassCleanup(atexit.unregister, cls.cloud.stop)
        cls.addClassCleanup(cls.cloud.stop)
        cls.cloud.start()
        cls.image = moving.create_image(cls.cloud)
        cls.flavor = moving.create_flavor(cls.cloud)

    def setUp(self):
        super().setUp()
        self.api = self.cloud.api
        begun = str(datetime.datetime.now())
        self.addOnException(lambda _: base.say(self.cloud.errors(begun)))

    def boot_all(self, host, **flavors):
        """Boot servers, and return them once their guests have written.

        :param flavors: by the names of the servers.
        """
        uuids = [
            self.api.create_server(name, flavor, self.image, host=host)
            for name, flavor in flavors.items()
        ]
        for uuid in uuids:
            self.addCleanup(self.api.delete_server, uuid)
        for uuid in uuids:
            self.api.wait_server(uuid)
        servers = [moved_server.Server(self.cloud, uuid) for uuid in uuids]
        for server in servers:
            server.wait_verified()
        return servers

    def boot(self, host):
        """Boot a server; returns it once its guest has written."""
        (server,) = self.boot_all(host, **{moving.NAME: self.flavor})
        return server

    def migrate_live(self, server, host):
        """Migrate a server to the other host."""
        server.migrate_live()
        server.wait_migrated(host)

    def compute_service(self, host):
        path = f'/os-services?host={host}&binary=nova-compute'
        (service,) = self.api.get('compute', path)['services']
        return service
