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


"""A stand-in for the libvirt module."""

import sys
import types
from unittest import mock

import fixtures

from nova_diskplacer.host import libvirt_connection


class Error(Exception):
    """A ``libvirtError`` with an error code."""

    def __init__(self, code):
        super().__init__(f'error {code}')
        self._code = code

    def get_error_code(self):
        return self._code


class FakeLibvirt(types.SimpleNamespace):
    """The module, and a connection to the guests that run.

    ``uris`` are those that connections were opened to, ``closed`` is how many
    were closed. Functions given by name are added or replaced.
    """

    VIR_DOMAIN_AFFECT_LIVE = 1
    VIR_DOMAIN_METADATA_ELEMENT = 2
    VIR_ERR_NO_DOMAIN = 42
    libvirtError = Error

    def __init__(self, *running, **functions):
        super().__init__(**functions)
        self.running = list(running)
        self.uris = []
        self.closed = 0

    def open(self, uri):
        self.uris.append(uri)
        return self

    def close(self):
        self.closed += 1

    def lookupByUUIDString(self, uuid):  # noqa: N802
        return self._find(lambda guest: guest.uuid == uuid)

    def lookupByID(self, run):  # noqa: N802
        return self._find(lambda guest: guest.run == run)

    def _find(self, wanted):
        for guest in self.running:
            if wanted(guest):
                return guest
        raise Error(self.VIR_ERR_NO_DOMAIN)


class DomainStats(fixtures.Fixture):
    """Has libvirt's bulk statistics tell of the domains of ``tell``."""

    def _setUp(self):
        self.connection = mock.Mock()
        module = FakeLibvirt(
            VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE=1,
            VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT=2,
            VIR_DOMAIN_STATS_CPU_TOTAL=2,
            VIR_DOMAIN_STATS_BALLOON=4,
            VIR_DOMAIN_STATS_VCPU=8,
            VIR_DOMAIN_STATS_INTERFACE=16,
            VIR_DOMAIN_STATS_BLOCK=32,
            VIR_DOMAIN_STATS_PERF=64,
            registerErrorHandler=mock.Mock(),
            openReadOnly=mock.Mock(return_value=self.connection),
        )
        libvirt_connection.import_libvirt.cache_clear()
        self.addCleanup(libvirt_connection.import_libvirt.cache_clear)
        patch = mock.patch.dict(sys.modules, {'libvirt': module})
        patch.start()
        self.addCleanup(patch.stop)

    def tell(self, stats):
        """Set the statistics of each domain, by UUID."""
        found = []
        for uuid, values in stats.items():
            domain = mock.Mock()
            domain.UUIDString.return_value = uuid
            found.append((domain, values))
        self.connection.getAllDomainStats.return_value = found
