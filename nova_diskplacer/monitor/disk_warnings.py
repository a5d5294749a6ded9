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

"""Keeps the warnings of disks and logs each once."""

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Warnings:
    """The warnings in force, by the UUID of the disk and their kind.

    A warning is logged when it begins and when it ends, not when its text
    changes. Threads may share one object.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def update(self, uuid: str, kind: str, text: str | None) -> None:
        """Set a warning, or end it if the text is None."""
        if text is None:
            if self._texts.pop((uuid, kind), None) is not None:
                LOG.info('Disk %s: the %s is normal again.', uuid, kind)
            return
        if (uuid, kind) not in self._texts:
            LOG.warning('Disk %s: %s', uuid, text)
        self._texts[uuid, kind] = text

    def update_with_hysteresis(
        self, uuid: str, kind: str, text: str, begins: bool, stays: bool
    ) -> None:
        """Set a warning that begins and ends at different thresholds.

        :param begins: the condition for a warning that is not in force.
        :param stays: the condition for one that is.
        """
        holds = stays if (uuid, kind) in self._texts else begins
        self.update(uuid, kind, text if holds else None)

    def for_disk(self, uuid: str) -> tuple[str, ...]:
        """Return the warnings of a disk, sorted."""
        texts = list(self._texts.items())
        return tuple(sorted(text for key, text in texts if key[0] == uuid))

    def disks(self) -> set[str]:
        """Return the UUIDs of all disks with warnings."""
        return {uuid for uuid, _ in list(self._texts)}

    def clear(self, uuid: str) -> None:
        """Forget the warnings of a disk that has gone."""
        for key in [key for key in list(self._texts) if key[0] == uuid]:
            self._texts.pop(key, None)
