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

"""The backends of vdisks and their volume types, asked of Cinder.

Only administrators see them, so Nova's own account in ``[cinder]`` asks.
"""

import dataclasses
import threading
import time
import typing

from nova import context as nova_context
from nova.volume import cinder
from oslo_log import log as logging

from nova_diskplacer.api import backend_media
from nova_diskplacer.api import volumes

LOG = logging.getLogger(__name__)

# Seconds for which an answer is good.
_AGE = 60


@dataclasses.dataclass
class Backends:
    """The last answer of Cinder about its backends; empty without one.

    ``types`` has the ``volume_backend_name`` of each volume type.
    """

    types: dict[str, str] = dataclasses.field(default_factory=dict)
    pools: list[backend_media.Pool] = dataclasses.field(default_factory=list)
    asked_at: float | None = None
    _lock: threading.Lock = dataclasses.field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def problem(self, media: str, volume_type: str) -> str:
        """Return why vdisks of a flavor may not fit their volume type, or ''.

        They may fit if Cinder does not tell.

        :param media: ``diskplacer:media`` of the flavor.
        """
        self._update()
        return backend_media.problem(
            media, volume_type, self.types.get(volume_type, ''), self.pools
        )

    def hosts(self, volume_type: str) -> int:
        """Return the number of hosts with vdisks of a volume type.

        0 if Cinder does not tell.
        """
        self._update()
        backend = self.types.get(volume_type)
        return len(
            {pool.host for pool in self.pools if pool.backend == backend}
        )

    def _update(self) -> None:
        # who comes meanwhile waits: without an answer, nothing is refused
        with self._lock:
            now = time.monotonic()
            if self.asked_at is not None and now - self.asked_at <= _AGE:
                return
            self.asked_at = now
            try:
                self.types, self.pools = _ask()
            except volumes.ERRORS as error:
                self.types, self.pools = {}, []
                LOG.warning(
                    'The media of flavors are not compared with those of '
                    'volume types: Cinder does not tell its backends to the '
                    'account in [cinder] of nova.conf: %s',
                    error,
                )


def _ask() -> tuple[dict[str, str], list[backend_media.Pool]]:
    client: typing.Any = cinder.cinderclient(nova_context.get_admin_context())
    types = {
        volume_type.name: (volume_type.extra_specs or {}).get(
            'volume_backend_name', ''
        )
        for volume_type in client.volume_types.list(is_public=None)
    }
    return types, [
        backend_media.Pool(
            pool.name.partition('@')[0],
            pool.volume_backend_name,
            pool.vdisk_media,
        )
        for pool in client.pools.list(detailed=True)
        if hasattr(pool, 'vdisk_mapper')
    ]
