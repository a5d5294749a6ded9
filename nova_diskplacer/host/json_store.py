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

"""Small JSON files with what is to be known after a restart."""

import json
import os
from typing import Any

from oslo_log import log as logging

from nova_diskplacer.host import files

LOG = logging.getLogger(__name__)


class Store:
    """One file for each name in a directory, which is made when needed.

    What is kept here is history: that it cannot be read or written is logged,
    once, and otherwise as if there were none.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._failed = False

    def load(self, name: str) -> Any:
        """Return what was saved under a name, None if nothing usable was."""
        path = self._path(name)
        try:
            with open(path, encoding='utf-8') as stream:
                return json.load(stream)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            LOG.warning('%s is not used: %s', path, error)
            return None

    def save(self, name: str, fields: Any) -> None:
        """Save something, whole or not at all."""
        path = self._path(name)
        try:
            os.makedirs(self._directory, mode=0o755, exist_ok=True)
            files.replace(path, json.dumps(fields), durable=False)
        except OSError as error:
            if not self._failed:
                LOG.warning('%s is not written: %s', path, error)
            self._failed = True
        else:
            self._failed = False

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name + '.json')
