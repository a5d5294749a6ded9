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


"""The clients: each does one operation after the other to what it owns."""

import collections
import collections.abc
import contextlib
import random
import threading
import time
import typing

import keystoneauth1.exceptions
import requests

from tools.minicloud import process
from tools.minicloud.api import Api
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import State
from tools.storm import content
from tools.storm import load
from tools.storm import vdisk_io
from tools.storm.invariants import Violation

# Seconds that an operation has: longer than any fault, and its recovery.
PATIENCE = 150
_INTERVAL = 1.0


class Failed(Exception):
    """An object went to an error status."""


class Client:
    """A client with a number; its operations follow from the seed.

    :param flavors: ids by name.
    """

    def __init__(
        self, cloud: Cloud, seed: int, number: int, flavors: dict[str, str]
    ) -> None:
        self._state = cloud.state
        self._image = cloud.image
        self._flavors = flavors
        self._rng = random.Random(f'{seed}/client/{number}')
        self._name = f'storm-{number}'
        self._api = Api(cloud.state)
        self._fake = {
            host.name for host in cloud.hosts if host.guests != 'libvirt'
        }
        self.owned = load.Owned()
        # what nobody changes any more, since an operation has failed
        self.given_up: list[load.Volume] = []
        self.counts: load.Counts = collections.defaultdict(collections.Counter)
        self.violations: list[Violation] = []
        self.failures: list[str] = []

    def run(self, over: threading.Event) -> None:
        """Do operations until a storm is over."""
        while not over.is_set():
            chosen = load.choose(self._rng, self.owned)
            begun = time.time()
            outcome = self._do(chosen)
            self.counts[chosen.name][outcome] += 1
            if outcome != load.OK:
                ended = time.strftime('%H:%M:%S', time.gmtime(begun))
                self.failures[-1] = f'{ended} {self.failures[-1]}'
            over.wait(self._rng.uniform(0.2, 1.5))

    def _do(self, chosen: load.Operation) -> str:
        """Do an operation and return how it ended."""
        method = getattr(self, '_' + chosen.name.replace('-', '_'))
        arguments = [one for one in chosen[1:] if one is not None]
        error: Exception
        try:
            method(*arguments)
        except ApiError as raised:
            error = raised
            if raised.status >= 500:
                outcome = load.SERVER_ERROR
            else:
                outcome = load.REFUSED if raised.status else load.FAILED
        except (
            keystoneauth1.exceptions.ClientException,
            requests.RequestException,
        ) as raised:
            error, outcome = raised, load.UNREACHABLE
        except (Failed, vdisk_io.Unwritten, OSError) as raised:
            error, outcome = raised, load.FAILED
        except process.ProcessError as raised:
            error, outcome = raised, load.STUCK
        else:
            return load.OK
        what = ' '.join(str(getattr(one, 'uuid', '')) for one in arguments)
        self.failures.append(f'{chosen.name} {what}: {outcome}: {error}')
        return outcome

    # what is waited for; the cloud may not answer meanwhile

    def _get(self, service: str, path: str) -> typing.Any:
        """Return what is at a path, None if nothing answers."""
        try:
            return self._api.get(service, path)
        except ApiError as error:
            if error.status < 500:
                raise
        except (
            keystoneauth1.exceptions.ClientException,
            requests.RequestException,
        ):
            pass
        return None

    def _wait(
        self,
        service: str,
        path: str,
        ready: collections.abc.Callable[[typing.Any], object],
    ) -> None:
        def done() -> object:
            found = self._get(service, path)
            if found is None:
                return False
            (found,) = found.values()
            if str(found['status']).lower().startswith('error'):
                raise Failed(f'{path}: {found["status"]}')
            return ready(found)

        process.wait(path, done, PATIENCE, _INTERVAL)

    def _wait_server(self, uuid: str, *statuses: str) -> None:
        self._wait(
            'compute',
            f'/servers/{uuid}',
            lambda found: (
                found['status'] in statuses
                and not found['OS-EXT-STS:task_state']
            ),
        )

    def _wait_volume(
        self, uuid: str, status: str = 'available', failed: str = ''
    ) -> None:
        """Wait until a volume has a status.

        :raises Failed: it has the status that it has where that failed.
        """
        path = f'/volumes/{uuid}'

        def ready(found: typing.Any) -> bool:
            if found['status'] == failed:
                raise Failed(f'{path} is {failed} again')
            return bool(found['status'] == status)

        self._wait('volumev3', path, ready)

    def _wait_snapshot(self, uuid: str) -> None:
        self._wait(
            'volumev3',
            f'/snapshots/{uuid}',
            lambda found: found['status'] == 'available',
        )

    def _wait_gone(self, service: str, path: str) -> None:
        def gone() -> bool:
            try:
                found = self._get(service, path)
            except ApiError as error:
                if error.status == requests.codes.not_found:
                    return True
                raise
            if found is not None:
                (one,) = found.values()
                if 'error' in str(one.get('status')).lower():
                    raise Failed(f'{path}: {one["status"]}')
            return False

        process.wait(f'{path} gone', gone, PATIENCE, _INTERVAL)

    # servers

    def _boot(self) -> None:
        flavor = self._rng.choice(load.BOOTED)
        uuid = self._api.create_server(
            self._name, self._flavors[flavor], self._image
        )
        try:
            self._wait_server(uuid, 'ACTIVE')
            found = self._api.server(uuid)
            host = found['OS-EXT-SRV-ATTR:host']
            server = load.Server(uuid, flavor, host)
            volumes = [
                load.Volume(
                    one, content.Content(1), server, bound=True, of_boot=True
                )
                for one in self._api.attachments(uuid)
            ]
        except Exception:
            self._discard('compute', f'/servers/{uuid}')
            raise
        self.owned.servers.append(server)
        self.owned.volumes += volumes
        (asked,) = (one for one in load.FLAVORS if one.name == flavor)
        if len(volumes) != asked.vdisks:
            self._violated(
                'boot',
                uuid,
                f'has {len(volumes)} vdisks, and {flavor} asks for '
                f'{asked.vdisks}',
            )

    def _delete_server(self, server: load.Server) -> None:
        volumes = self.owned.of(server)
        self.owned.servers.remove(server)
        for one in volumes:
            self._give_up(one)
        self._api.delete('compute', f'/servers/{server.uuid}')
        self._wait_gone('compute', f'/servers/{server.uuid}')
        for one in volumes:
            if not one.of_boot:
                self._wait_volume(one.uuid)
                one.server = None
                self.given_up.remove(one)
                self.owned.volumes.append(one)

    def _discard(self, service: str, path: str) -> None:
        """Ask to delete something that has failed."""
        with contextlib.suppress(
            ApiError,
            keystoneauth1.exceptions.ClientException,
            requests.RequestException,
        ):
            self._api.delete(service, path)

    @contextlib.contextmanager
    def _keeping(self, server: load.Server) -> collections.abc.Iterator[None]:
        """Give up a server where an operation fails.

        It and what it has attached stay, and are compared in the end.
        """
        try:
            yield
        except Exception:
            if server in self.owned.servers:
                self.owned.servers.remove(server)
            for one in self.owned.of(server):
                self._give_up(one)
            raise

    def _resize(self, server: load.Server) -> None:
        flavor = self._rng.choice(load.RESIZES[server.flavor])
        with self._keeping(server):
            self._api.action(
                server.uuid, resize={'flavorRef': self._flavors[flavor]}
            )
            self._wait_server(server.uuid, 'VERIFY_RESIZE', 'ACTIVE')
            found = self._api.server(server.uuid)
            if found['status'] == 'ACTIVE':
                # it was not possible
                raise Failed(f'{server.uuid} is not resized')
            self._api.action(server.uuid, confirmResize=None)
            self._wait_server(server.uuid, 'ACTIVE')
        server.flavor = flavor

    def _shelve(self, server: load.Server) -> None:
        with self._keeping(server):
            self._api.action(server.uuid, shelve=None)
            self._wait_server(server.uuid, 'SHELVED_OFFLOADED')
            self._api.action(server.uuid, unshelve=None)
            self._wait_server(server.uuid, 'ACTIVE')
            found = self._api.server(server.uuid)
            server.host = found['OS-EXT-SRV-ATTR:host']

    def _reboot(self, server: load.Server) -> None:
        with self._keeping(server):
            self._api.action(server.uuid, reboot={'type': 'HARD'})
            self._wait_server(server.uuid, 'ACTIVE')

    # volumes

    def _new_volume(
        self, wanted: content.Content | None, **source: str
    ) -> None:
        size = wanted.size_gb if wanted else 1
        body = {'volume': {'size': size, 'volume_type': 'vdisk', **source}}
        answer = self._api.post('volumev3', '/volumes', body)
        uuid = str(answer['volume']['id'])
        try:
            self._wait_volume(uuid)
        except Exception:
            self._discard('volumev3', f'/volumes/{uuid}')
            raise
        volume = load.Volume(
            uuid, wanted or content.Content(1), bound=wanted is not None
        )
        self.owned.volumes.append(volume)
        if volume.bound:
            self._compare(volume)

    def _create_volume(self) -> None:
        self._new_volume(None)

    def _clone(self, volume: load.Volume) -> None:
        assert volume.content
        self._new_volume(volume.content.copy(), source_volid=volume.uuid)

    def _from_snapshot(
        self, volume: load.Volume, snapshot: load.Snapshot
    ) -> None:
        self._new_volume(snapshot.content.copy(), snapshot_id=snapshot.uuid)

    def _attach(self, server: load.Server, volume: load.Volume) -> None:
        path = f'/servers/{server.uuid}/os-volume_attachments'
        with self._settling(volume):
            self._api.post(
                'compute',
                path,
                {'volumeAttachment': {'volumeId': volume.uuid}},
            )
            self._wait_volume(volume.uuid, 'in-use', 'available')
        volume.server = server
        volume.bound = True

    def _detach(self, volume: load.Volume) -> None:
        assert volume.server
        path = f'/servers/{volume.server.uuid}/os-volume_attachments/'
        with self._settling(volume):
            self._api.delete('compute', path + volume.uuid)
            self._wait_volume(volume.uuid, 'available', 'in-use')
        volume.server = None
        volume.of_boot = False

    @contextlib.contextmanager
    def _settling(self, volume: load.Volume) -> collections.abc.Iterator[None]:
        """Give up a volume if nobody can tell whether it is attached."""
        try:
            yield
        except ApiError as error:
            if not 400 <= error.status < 500:
                self._give_up(volume)
            raise
        except Exception:
            if not self._is_settled(volume):
                self._give_up(volume)
            raise

    def _is_settled(self, volume: load.Volume) -> bool:
        """Return whether a volume is as before, a while later."""
        wanted = 'in-use' if volume.server else 'available'
        try:
            self._wait_volume(volume.uuid, wanted)
        except Exception:
            return False
        return True

    def _give_up(self, volume: load.Volume) -> None:
        self.owned.volumes.remove(volume)
        self.given_up.append(volume)

    def _extend(self, volume: load.Volume) -> None:
        assert volume.content
        size = volume.content.size_gb + 1
        path = f'/volumes/{volume.uuid}'
        with self._settling(volume):
            self._api.post(
                'volumev3', f'{path}/action', {'os-extend': {'new_size': size}}
            )
            self._wait_volume(volume.uuid)
        found = self._api.volume(volume.uuid)
        volume.content.size_gb = found['size']
        self._compare(volume)
        if found['size'] != size:
            raise Failed(f'{path} has still {found["size"]} GiB')

    def _delete_volume(self, volume: load.Volume) -> None:
        self.owned.volumes.remove(volume)
        self._api.delete('volumev3', f'/volumes/{volume.uuid}')
        self._wait_gone('volumev3', f'/volumes/{volume.uuid}')

    # snapshots

    def _snapshot(self, volume: load.Volume) -> None:
        assert volume.content
        body = {'snapshot': {'volume_id': volume.uuid, 'force': True}}
        answer = self._api.post('volumev3', '/snapshots', body)
        uuid = str(answer['snapshot']['id'])
        try:
            self._wait_snapshot(uuid)
        except Exception:
            self._discard('volumev3', f'/snapshots/{uuid}')
            raise
        volume.snapshots.append(load.Snapshot(uuid, volume.content.copy()))

    def _delete_snapshot(
        self, volume: load.Volume, snapshot: load.Snapshot
    ) -> None:
        volume.snapshots.remove(snapshot)
        self._api.delete('volumev3', f'/snapshots/{snapshot.uuid}')
        self._wait_gone('volumev3', f'/snapshots/{snapshot.uuid}')

    def _revert(self, volume: load.Volume) -> None:
        snapshot = volume.snapshots[-1]
        before, volume.content = volume.content, None
        try:
            self._api.post(
                'volumev3',
                f'/volumes/{volume.uuid}/action',
                {'revert': {'snapshot_id': snapshot.uuid}},
            )
        except ApiError as error:
            if error.status < 500:
                volume.content = before
            raise
        self._wait_volume(volume.uuid)
        volume.content = snapshot.content.copy()
        self._compare(volume)

    # bytes

    def _write(self, volume: load.Volume) -> None:
        assert volume.content
        block = self._rng.choice(volume.content.places())
        digest = volume.content.next_digest(volume.uuid, block)
        server = volume.server
        assert server
        try:
            if server.host not in self._fake:
                vdisk_io.write_by_guest(
                    self._state, server.uuid, volume.uuid, block, digest
                )
            else:
                vdisk_io.write(
                    self._state, server.host, volume.uuid, block, digest
                )
        except vdisk_io.Unwritten as error:
            if error.begun:
                volume.content.may_have_written(block)
            raise
        volume.content.wrote(block, digest)

    def _read(self, volume: load.Volume) -> None:
        self._compare(volume)

    def _compare(self, volume: load.Volume) -> None:
        self.violations += wrong_bytes(
            self._state, f'volume-{volume.uuid}', volume.content
        )

    def compare_all(self) -> int:
        """Compare all that is left; returns how many vdisks there are."""
        wanted = {
            f'volume-{volume.uuid}': volume.content
            for volume in (*self.owned.volumes, *self.given_up)
        }
        wanted |= {
            f'snapshot-{snapshot.uuid}': snapshot.content
            for volume in (*self.owned.volumes, *self.given_up)
            for snapshot in volume.snapshots
        }
        for name, expected in wanted.items():
            self.violations += wrong_bytes(self._state, name, expected)
        return len(wanted)

    def _violated(self, rule: str, subject: str, what: str) -> None:
        self.violations.append(Violation(rule, subject, what))


def wrong_bytes(
    state: State, name: str, wanted: content.Content | None
) -> list[Violation]:
    """Compare a vdisk, if there is one, with what it must have.

    Of several copies, that of the link is compared. Whether there should be
    one is for the invariants to say.

    :raises OSError: it cannot be read.
    """
    path = vdisk_io.path(state, name)
    if wanted is None or path is None:
        return []
    return [
        Violation(
            'bytes',
            name,
            f'block {one.block} has {one.found}, not {one.wanted}',
        )
        for one in vdisk_io.wrong_blocks(path, wanted)
    ]
