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

"""Rules for the volumes of a host that is lost for good.

Each function decides one thing and changes nothing.
"""

import dataclasses

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.server_moves import checks
from nova_diskplacer import flavor

#: statuses of a volume of a server; the latter is that of one which a failed
#: evacuation of the server has not attached
ATTACHED = ('in-use', 'reserved')

# Statuses of a volume that waits for the lost host to delete it.
_DELETING = ('deleting', 'error_deleting')

# Statuses of servers that Nova evacuates.
_EVACUABLE = ('ACTIVE', 'ERROR', 'SHUTOFF')

#: of a server, in words that follow it
MOVES = 'moves, or has moved, and its data has not settled'


@dataclasses.dataclass(frozen=True)
class Facts(checks.VolumeFacts):
    """The facts that decide if the data of a volume is given up.

    :param has_server: whether a server has it attached.
    :param of_flavor: whether it is one of the vdisks of its server's flavor.
    :param moves: whether its server moves, and its data has not arrived.
    """

    status: str
    has_server: bool
    of_flavor: bool
    moves: bool
    in_other_zone: bool


def why_server_stays(
    server: nova_api.Server | None,
    host: str,
    volumes: int,
    *,
    is_given_up: bool = False,
) -> str:
    """Return why a server does not come back without its data, '' if it may.

    :param host: that is lost.
    :param volumes: number of its volumes there.
    :param is_given_up: whether their data was given up before, so that the
        server is on another lost host.
    """
    if server is None:
        return 'Nova does not know its server'
    if server.host != host and not is_given_up:
        return f'its server is on host {server.host or "none"}'
    request = server.request
    if request is None or request.on_host_loss != flavor.BLANK:
        return (
            'the flavor of its server has no '
            f'{flavor.NAMESPACE}{flavor.ON_HOST_LOSS}={flavor.BLANK}'
        )
    if server.task:
        return f'its server has a task of Nova: {server.task}'
    if server.status not in _EVACUABLE:
        return (
            f'its server is {server.status}, and Nova evacuates none that is '
            f'not {" or ".join(_EVACUABLE)}'
        )
    if volumes > request.vdisks:
        return (
            f'its server has {volumes} vdisks, and its flavor claims '
            f'{request.vdisks} elsewhere'
        )
    return ''


def why_volume_stays(facts: Facts) -> str:
    """Return why the data of a volume is not given up, '' if it may be."""
    if facts.moves:
        return f'its server {MOVES}'
    if not facts.has_server:
        if facts.status not in _DELETING:
            return 'it is attached to no server: delete it, and repeat this'
    elif facts.status not in ATTACHED:
        return f'it is {facts.status}'
    elif not facts.of_flavor:
        return 'it is none of the vdisks of the flavor of its server'
    if reason := facts.why_it_stays():
        return reason
    if facts.in_other_zone:
        return 'this host is in another availability zone'
    return ''
