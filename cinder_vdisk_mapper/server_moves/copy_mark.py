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

"""The write counters of a vdisk and of its copy when the copy ends."""

import dataclasses

from nova_diskplacer.disks import remote
from nova_diskplacer.host import saved_settings


@dataclasses.dataclass(frozen=True)
class CopyMark:
    """The kernel's write counters of a vdisk and its copy, after copying.

    Later counters show if this host has written to either since.

    :param boot: ID of the boot, after which it tells nothing.
    :param source: of :func:`nova_diskplacer.disks.remote.writes`.
    :param target: of ``Backend.writes``.
    """

    boot: str
    source: str
    target: str

    @classmethod
    def of_now(cls, source: str, target: str) -> 'CopyMark':
        """Return the mark of a copy that ends now."""
        return cls(saved_settings.boot_id(), source, target)

    @classmethod
    def parse(cls, text: str) -> 'CopyMark | None':
        """Return the mark of a text, None for none."""
        return cls(*text.split(' ')) if text else None

    def __str__(self) -> str:
        return f'{self.boot} {self.source} {self.target}'

    def is_of_this_boot(self) -> bool:
        """Return whether this host was not booted since."""
        return self.boot == saved_settings.boot_id()

    def is_source_written(self, now: str) -> bool:
        """Return whether this host has written to the source since.

        A new session has another device, whose counters do not tell.

        :param now: as ``source``, but of now.
        """
        return (
            remote.device_of(now) == remote.device_of(self.source)
            and now != self.source
        )

    def is_target_written(self, now: str) -> bool:
        """Return whether anybody has written to the target since.

        :param now: as ``target``, but of now.
        """
        return now != self.target
