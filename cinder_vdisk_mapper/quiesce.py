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

"""Servers that write nothing for a moment.

Before a server is suspended a file named by it is made, and removed when it
has been resumed. A file that nobody holds the lock of is of a process that
was killed: whoever finds it resumes the server.
"""

import contextlib
import os
from collections.abc import Collection
from collections.abc import Iterator

from oslo_log import log as logging
from oslo_utils import timeutils

from cinder_vdisk_mapper import hypervisor
from cinder_vdisk_mapper import room
from nova_diskplacer import exception

LOG = logging.getLogger(__name__)


class Quiescer:
    """Suspends and resumes the servers of this host.

    :param uri: of libvirt.
    :param directory: holds the files of servers that are suspended.
    """

    def __init__(self, uri: str, directory: str) -> None:
        self.uri = uri
        self.directory = directory

    @contextlib.contextmanager
    def quiet(self, servers: Collection[str]) -> Iterator[None]:
        """Have servers write nothing, and resume them whatever happens.

        One that does not run, or that somebody else has suspended, stays as
        it is.

        :param servers: their UUIDs.
        :raises DiskError: one of them cannot be suspended; all that were
            have been resumed.
        """
        with contextlib.ExitStack() as locks:
            for server in sorted(servers):
                locks.enter_context(_lock(server))
            with contextlib.ExitStack() as suspended:
                watch = timeutils.StopWatch()
                for server in sorted(servers):
                    if hypervisor.running(self.uri, server):
                        if not watch.has_started():
                            watch.start()
                        self._note(server)
                        suspended.callback(self._resume, server)
                        hypervisor.suspend(self.uri, server)
                yield
            if watch.has_started():
                LOG.info('Suspended for %.3f s: %s', watch.elapsed(), servers)

    def recover(self) -> None:
        """Resume what a process that was killed has left suspended."""
        if not os.path.isdir(self.directory):
            return
        for server in sorted(os.listdir(self.directory)):
            # whoever suspended it holds the lock for as long as it lives
            with _lock(server):
                if os.path.exists(self._path(server)):
                    LOG.warning('Server %s was left suspended', server)
                    self._resume(server)

    def _resume(self, server: str) -> None:
        try:
            hypervisor.resume(self.uri, server)
        except exception.DiskError as error:
            # tried again when the next look is taken
            LOG.error('Server %s stays suspended: %s', server, error)
        else:
            os.unlink(self._path(server))

    def _note(self, server: str) -> None:
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        os.close(os.open(self._path(server), os.O_CREAT | os.O_WRONLY, 0o600))
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _path(self, server: str) -> str:
        return os.path.join(self.directory, server)


def _lock(server: str) -> contextlib.AbstractContextManager[None]:
    return room.lock(f'quiet-{server}')
