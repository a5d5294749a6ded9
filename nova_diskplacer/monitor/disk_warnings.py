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

"""Warnings about disks, each said once."""

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Notices:
    """The warnings in force, by the UUID of the disk and their kind.

    A warning is logged when it begins and when it ends, not when its text
    changes. Threads may share one.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def tell(self, uuid: str, kind: str, text: str | None) -> None:
        """Have a warning with a text in force, or not if that is None."""
        if text is None:
            if self._texts.pop((uuid, kind), None) is not None:
                LOG.info('Disk %s: the %s is as it should be.', uuid, kind)
            return
        if (uuid, kind) not in self._texts:
            LOG.warning('Disk %s: %s', uuid, text)
        self._texts[uuid, kind] = text

    def judge(
        self, uuid: str, kind: str, text: str, begins: bool, stays: bool
    ) -> None:
        """Have a warning that begins and ends at different thresholds.

        :param begins: whether it comes into force if it is not.
        :param stays: whether it stays in force if it is.
        """
        holds = stays if (uuid, kind) in self._texts else begins
        self.tell(uuid, kind, text if holds else None)

    def of(self, uuid: str) -> tuple[str, ...]:
        """Return the warnings of a disk, sorted."""
        texts = list(self._texts.items())
        return tuple(sorted(text for key, text in texts if key[0] == uuid))

    def uuids(self) -> set[str]:
        """Return the disks that there are warnings of."""
        return {uuid for uuid, _ in list(self._texts)}

    def forget(self, uuid: str) -> None:
        """Forget a disk that is not there any more."""
        for key in [key for key in list(self._texts) if key[0] == uuid]:
            self._texts.pop(key, None)
