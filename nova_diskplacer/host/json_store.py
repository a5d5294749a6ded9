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

"""Stores small JSON files that survive a restart of the agent."""

import os
from typing import Any

from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import log_once
from nova_diskplacer.host import state_file

LOG = logging.getLogger(__name__)


class JsonStore:
    """A directory with a JSON file for each name, created when needed.

    The files hold history that nothing depends on: errors are logged, and an
    unreadable file counts as missing.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._log = log_once.ChangeLogger(LOG)

    def load(self, name: str) -> Any:
        """Return the content of a file, None if it cannot be used."""
        return state_file.read_usable(
            self._path(name), lambda content: content, 'JSON'
        )

    def save(self, name: str, fields: Any) -> None:
        """Replace the content of a file atomically."""
        path = self._path(name)
        try:
            with files.disk_errors(path):
                os.makedirs(self._directory, mode=0o755, exist_ok=True)
            state_file.write(path, fields, durable=False)
        except exception.DiskError as error:
            self._log.log(
                self._directory,
                'Files in %s are not written: %s',
                self._directory,
                error,
            )
        else:
            self._log.clear(self._directory)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name + '.json')
