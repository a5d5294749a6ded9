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

"""The servers and volumes that are left on a host."""

import collections
import collections.abc
import dataclasses

from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import reading
from nova_diskplacer.client.server_moves.nova import Nova

MOVED = 'moved'
DELETED = 'deleted'
LEFT = 'left'
UNDER_WAY = 'under way'


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome for a server, or for a volume of none.

    ``kind`` is that of its move, empty without any.
    """

    server: facts.Server | None
    kind: str
    result: str
    reason: str = ''
    volume: facts.Volume | None = None

    @property
    def is_gone(self) -> bool:
        """True if the host is rid of it."""
        return self.result in (MOVED, DELETED)


Results = collections.abc.Mapping[str, Result]


class Remains:
    """Servers and volumes of a host, as they are now.

    All methods raise DiskPlacerError if an API does not answer.
    """

    def __init__(self, nova: Nova, reader: reading.Reader) -> None:
        self._nova = nova
        self._reader = reader

    def server(self, id_: str) -> facts.Server | None:
        """Return a server without its volumes, None if it is deleted."""
        item = self._nova.server(id_)
        return None if item is None else self._reader.without_volumes(item)

    def unsettled(self) -> list[facts.Volume]:
        """Return the volumes that are to follow a server to another host.

        Those of a server in ERROR do not follow it.
        """
        hosts: dict[str, str] = {}
        volumes = []
        for volume in self._reader.volumes_of(self._nova.host):
            id_ = volume.server_id
            if id_ is None:
                continue
            if id_ not in hosts:
                server = self.server(id_)
                hosts[id_] = (
                    server.host
                    if server and server.vm_state != facts.ERROR
                    else ''
                )
            if hosts[id_] not in ('', self._nova.host):
                volumes.append(volume)
        return volumes

    def results(
        self,
        gone: Results,
        left: Results,
        waiting: collections.abc.Mapping[str, str],
        under_way: Results,
    ) -> list[Result]:
        """Return what has become of each server and volume of the host.

        :param gone: the servers that have left, by ID.
        :param left: those that cannot leave.
        :param waiting: why others could not leave yet.
        :param under_way: those that are leaving.
        """
        results = dict(gone)
        for id_, result in left.items():
            elsewhere = self.server(id_)
            if elsewhere and elsewhere.vm_state == facts.ERROR:
                results[id_] = dataclasses.replace(result, server=elsewhere)
        for item in self._nova.servers():
            server = self._reader.without_volumes(item)
            result = left.get(server.id) or Result(
                server,
                '',
                LEFT,
                waiting.get(server.id, 'its turn has not come'),
            )
            results[server.id] = dataclasses.replace(result, server=server)
        for item in self._nova.unconfirmed():
            server = self._reader.without_volumes(item)
            results[server.id] = Result(
                server,
                facts.COLD,
                LEFT,
                f'is on host {server.host}, and waits for a confirmation: '
                f'openstack server resize confirm {server.id}',
            )
        results.update(under_way)
        of_none = []
        for id_, volumes in self._by_server().items():
            server_now = self.server(id_) if id_ else None
            if server_now is None:
                of_none += [_of_volume(volume) for volume in volumes]
            elif id_ not in results or results[id_].is_gone:
                kind = results[id_].kind if id_ in results else ''
                results[id_] = self._unsettled(server_now, kind, len(volumes))
        return [*results.values(), *of_none]

    def _by_server(self) -> dict[str, list[facts.Volume]]:
        """Return the volumes of each server, those of none under ''."""
        by_server = collections.defaultdict(list)
        for volume in self._reader.volumes_of(self._nova.host):
            by_server[volume.server_id or ''].append(volume)
        return by_server

    def _unsettled(
        self, server: facts.Server, kind: str, vdisks: int
    ) -> Result:
        reason = (
            f'data of {vdisks} of its vdisks is still on {self._nova.host}'
        )
        if not server.host:
            reason += (
                ' until it is unshelved: openstack server unshelve '
                + server.id
            )
        return Result(server, kind, LEFT, reason)


def _of_volume(volume: facts.Volume) -> Result:
    return Result(
        None,
        '',
        LEFT,
        f'volume {volume.id} of {volume.size_gb} GiB is attached to no '
        'server, and does not leave the host',
        volume,
    )
