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


"""Volumes of the driver on the real cloud."""

import functools
import hashlib
import os
import stat
import xml.etree.ElementTree

from tests.e2e import base
from tools.minicloud import checks

MIB = 2**20
LUKS = b'LUKS\xba\xbe'


class FeaturesTestCase(base.TestCase):
    def setUp(self):
        self.types = []
        # last, when no volume has them
        self.addCleanup(self._delete_types)
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.addCleanup(self._delete_copies)

    def _delete_types(self):
        for type_ in self.types:
            self.api.delete('volumev3', f'/types/{type_}')

    def _delete_copies(self):
        """Delete all snapshots and backups."""

        def gone(kind):
            found = self.api.get('volumev3', f'/{kind}')[kind]
            for one in found:
                self.discard('volumev3', f'/{kind}/{one["id"]}')
            return not found

        for kind in ('snapshots', 'backups'):
            self.eventually(f'{kind} gone', functools.partial(gone, kind))

    def post(self, path, body):
        return self.api.post('volumev3', path, body)

    def action(self, volume, **action):
        return self.post(f'/volumes/{volume}/action', action)

    def make_type(self, backend='vdisk', **specs):
        """Make a volume type, which goes with the test; returns its id."""
        name = f'{self.id().rsplit(".", 1)[-1]}-{len(self.types)}'
        specs = {'volume_backend_name': backend, **specs}
        body = {'volume_type': {'name': name, 'extra_specs': specs}}
        type_ = self.post('/types', body)['volume_type']['id']
        self.types.append(type_)
        return type_

    def ask(self, size=1, server=None, **fields):
        """Ask for a volume, on the host of a server if given."""
        hints = {'local_to_instance': server} if server else {}
        body = {
            'volume': {'size': size, 'volume_type': 'vdisk', **fields},
            'OS-SCH-HNT:scheduler_hints': hints,
        }
        return self.post('/volumes', body)['volume']['id']

    def volume(self, size=1, server=None, **fields):
        """Return the id of a new volume."""
        volume = self.ask(size, server, **fields)
        self.api.wait_volume(volume, 'available')
        return volume

    def path(self, volume):
        """Return the file that a volume is, found on the disks alone."""
        root = self.cloud.state.disk_root(self.host)
        (path,) = root.glob(f'*/vdisks/volume-{volume}')
        return path

    def bound(self, server, **fields):
        """Return a volume that has been attached to a server, and is not."""
        volume = self.volume(server=server, **fields)
        self.api.attach(server, volume)
        self.api.detach(server, volume)
        return volume

    def disk_element(self, server, volume):
        text = checks.domain_xml(self.cloud, server)
        for disk in xml.etree.ElementTree.fromstring(text).iter('disk'):
            if disk.findtext('serial') == volume:
                return disk
        raise LookupError(volume)

    def assert_private(self, path):
        found = path.stat()
        self.assertEqual(0o600, stat.S_IMODE(found.st_mode))
        self.assertEqual((0, 0), (found.st_uid, found.st_gid))


def write(path, seed):
    """Put bytes that ``seed`` decides at the begin and the end of a file."""
    with path.open('r+b') as stream:
        for offset in (0, path.stat().st_size - MIB):
            stream.seek(offset)
            stream.write(pattern(seed))
        os.fsync(stream.fileno())


def pattern(seed):
    return hashlib.sha256(seed.encode()).digest() * (MIB // 32)


def seeded(path, seed, size=None):
    """Return whether a file has what ``write`` put into one of that size."""
    with path.open('rb') as stream:
        for offset in (0, (size or path.stat().st_size) - MIB):
            stream.seek(offset)
            if stream.read(MIB) != pattern(seed):
                return False
    return True


def digest(path):
    with path.open('rb') as stream:
        return hashlib.file_digest(stream, 'sha256').hexdigest()
