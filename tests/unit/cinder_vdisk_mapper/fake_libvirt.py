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

"""A libvirt whose guests are files: the name is the UUID, the content state.

It takes the place of the module ``libvirt``. ``directory`` holds the files;
``refuses`` the UUIDs of guests that refuse whatever they are asked.
"""

import os
import pathlib

VIR_DOMAIN_RUNNING = 1
VIR_DOMAIN_PAUSED = 3
VIR_DOMAIN_SHUTOFF = 5
VIR_ERR_NO_DOMAIN = 42

directory = os.environ.get('FAKE_LIBVIRT', '')
refuses = set()
uris = []


class libvirtError(Exception):
    """What libvirt raises."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code

    def get_error_code(self):
        return self.code


def registerErrorHandler(function, context):
    """Have errors printed by a function; nothing is printed here."""


class Domain:
    """A guest."""

    def __init__(self, uuid):
        self.uuid = uuid
        self.path = pathlib.Path(directory, uuid)

    def state(self):
        return [int(self.path.read_text()), 1]

    def suspend(self):
        self._become(VIR_DOMAIN_RUNNING, VIR_DOMAIN_PAUSED)

    def resume(self):
        self._become(VIR_DOMAIN_PAUSED, VIR_DOMAIN_RUNNING)

    def _become(self, before, after):
        if self.uuid in refuses:
            raise libvirtError('cannot acquire state change lock')
        assert self.state()[0] == before
        self.path.write_text(str(after))


class Connection:
    """A connection to libvirt."""

    def lookupByUUIDString(self, uuid):
        if not Domain(uuid).path.exists():
            raise libvirtError('Domain not found', VIR_ERR_NO_DOMAIN)
        return Domain(uuid)

    def close(self):
        pass


def connect(uri):
    """Connect; the URI is kept in ``uris``."""
    uris.append(uri)
    return Connection()


open = connect
