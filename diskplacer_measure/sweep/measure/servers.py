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

"""The servers of a run in Nova, and their flavors and volumes.

All names begin with the ID of the run, so that the leftovers of a killed run
are found and removed.
"""

import base64
import collections.abc
import dataclasses
import time
import typing

from openstack import exceptions as sdk_exc

from diskplacer_measure.sweep import plan
from nova_diskplacer import exception
from nova_diskplacer.client import cloud
from nova_diskplacer.placement import traits

# Nova names a volume that it creates for a server so.
_BLANK = '{}-blank-vol'

# Seconds to delete servers and their volumes.
_PATIENCE = 600
_INTERVAL = 2


@dataclasses.dataclass(frozen=True)
class Request:
    """The parameters of requests for servers.

    ``host`` is the name of the compute service. ``image`` is an ID.
    ``volume_type`` is that of vdisks, ``medium`` that of the measured disk.
    """

    host: str
    image: str
    volume_type: str
    medium: str


class Servers:
    """Makes and removes servers; each has one vdisk.

    Methods raise ``DiskPlacerError`` if an API does not answer or refuses.

    :param connection: an ``openstack.connection.Connection`` of an
        administrator.
    """

    def __init__(
        self, connection: typing.Any, run_id: str, request: Request
    ) -> None:
        self._connection = connection
        self._request = request
        self._prefix = f'diskplacer-sweep-{run_id}-'

    def count_others(self) -> int:
        """Return the number of servers of others on the host."""
        with cloud.convert_errors(f'the servers of host {self._request.host}'):
            on_host = self._connection.compute.servers(
                details=False,
                all_projects=True,
                compute_host=self._request.host,
            )
            return sum(
                not server.name.startswith(self._prefix) for server in on_host
            )

    def make_flavor(self, target: plan.Target, vdisk_gb: int) -> str:
        """Make a private flavor, and return its ID.

        Its root disk has the size of the image.
        """
        compute = self._connection.compute
        with cloud.convert_errors('the flavor of a sweep'):
            flavor = compute.create_flavor(
                name=f'{self._prefix}{target.vcpus}-{target.ram_mib}',
                vcpus=target.vcpus,
                ram=target.ram_mib,
                disk=0,
                is_public=False,
            )
            compute.create_flavor_extra_specs(
                flavor,
                {
                    'diskplacer:vdisks': '1',
                    'diskplacer:vdisk_gb': str(vdisk_gb),
                    'diskplacer:mapping': 'consolidated',
                    'diskplacer:media': self._request.medium,
                    'diskplacer:volume_type': self._request.volume_type,
                    f'trait:{traits.HOST}': 'required',
                },
            )
        return str(flavor.id)

    def boot(
        self, name: str, flavor: str, vdisk_gb: int, user_data: str
    ) -> str:
        """Request a server on the host, and return its ID.

        :param name: the name after the prefix of the run.
        """
        with cloud.convert_errors('a server of the sweep'):
            server = self._connection.compute.create_server(
                name=self._prefix + name,
                flavor_id=flavor,
                image_id=self._request.image,
                host=self._request.host,
                networks='none',
                config_drive=True,
                user_data=base64.b64encode(user_data.encode()).decode(),
                block_device_mapping=[
                    {
                        'source_type': 'image',
                        'destination_type': 'local',
                        'uuid': self._request.image,
                        'boot_index': 0,
                        'delete_on_termination': True,
                    },
                    {
                        'source_type': 'blank',
                        'destination_type': 'volume',
                        'volume_size': vdisk_gb,
                        'volume_type': self._request.volume_type,
                        'boot_index': -1,
                        'delete_on_termination': True,
                    },
                ],
            )
        return str(server.id)

    def is_active(self, server: str) -> bool:
        """Return whether a server runs.

        :raises DiskPlacerError: Nova could not build it; has the reason.
        """
        with cloud.convert_errors(f'server {server}'):
            record = self._connection.compute.get_server(server)
        if record.status == 'ERROR':
            fault = (record.fault or {}).get('message', 'no reason is known')
            raise exception.DiskPlacerError(
                f'server {server} cannot be built: {fault}'
            )
        return bool(record.status == 'ACTIVE')

    def console(self, server: str) -> str:
        """Return the last 100 KiB of a console, '' if there is none yet."""
        try:
            with cloud.convert_errors(f'the console of server {server}'):
                answer = self._connection.compute.get_server_console_output(
                    server
                )
        except exception.DiskPlacerError as error:
            if isinstance(
                error.__cause__,
                (sdk_exc.ConflictException, sdk_exc.NotFoundException),
            ):
                return ''
            raise
        return str(answer['output'] or '')

    def remove(self) -> None:
        """Remove all servers, volumes and flavors of the run; repeatable.

        They are gone when it returns.
        """
        compute = self._connection.compute
        with cloud.convert_errors('the servers of the sweep'):
            for server in self._present():
                compute.delete_server(server, ignore_missing=True)
            _wait(
                f'servers {self._prefix}* are not deleted',
                lambda: not self._present(),
            )
        with cloud.convert_errors('the volumes of the sweep'):
            _wait(
                f'volumes of servers {self._prefix}* are not deleted',
                lambda: not self._delete_volumes(),
            )
        with cloud.convert_errors('the flavors of the sweep'):
            # None: private flavors too, which only administrators can list
            for flavor in list(compute.flavors(is_public='None')):
                if flavor.name.startswith(self._prefix):
                    compute.delete_flavor(flavor, ignore_missing=True)

    def _present(self, **query: bool) -> set[str]:
        matches = self._connection.compute.servers(
            details=False, all_projects=True, name=self._prefix, **query
        )
        return {
            server.id
            for server in matches
            if server.name.startswith(self._prefix)
        }

    def _delete_volumes(self) -> bool:
        """Delete volumes that Nova leaves; return whether there were any.

        A killed run may have deleted servers whose volumes Nova leaves.
        """
        storage = self._connection.block_storage
        names = set(map(_BLANK.format, self._present(deleted_only=True)))
        volumes = [
            volume
            for volume in storage.volumes(details=True)
            if volume.name in names
        ]
        for volume in volumes:
            if volume.status in ('available', 'error'):
                storage.delete_volume(volume, ignore_missing=True)
        return bool(volumes)


def _wait(problem: str, done: collections.abc.Callable[[], bool]) -> None:
    """Wait until a condition holds.

    :raises DiskPlacerError: it takes too long.
    """
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise exception.DiskPlacerError(f'{problem} in {_PATIENCE} s')
        time.sleep(_INTERVAL)
