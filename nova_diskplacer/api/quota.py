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

"""The project's volume quotas, for the volumes that a request creates."""

import collections
import collections.abc
import typing

from nova_diskplacer.api import decision

#: Quotas as Cinder shows them with their usage.
Quotas = collections.abc.Mapping[str, typing.Any]


class Exceeded(Exception):
    """A quota cannot hold the volumes; the message is for the user."""


def check(
    quotas: Quotas,
    volumes: collections.abc.Iterable[decision.Volume],
    servers: int,
    default_type: str | None,
) -> None:
    """Check that the project's quotas hold new volumes.

    :param quotas: {name: {'limit', 'in_use', 'reserved'}}; a limit of -1 is
        none. Names are those of Cinder, ``volumes_TYPE`` among them.
    :param volumes: the volumes of one server.
    :param servers: the number of servers.
    :param default_type: the type of volumes that name none, None if it is
        not known: the quotas of that type are then left to Cinder.
    :raises Exceeded: a quota does not; names it.
    """
    demand: collections.Counter[str] = collections.Counter()
    largest = 0
    for volume in volumes:
        if not volume.is_new:
            continue
        size_gb = volume.size_gb or 0
        largest = max(largest, size_gb)
        of_type = volume.volume_type or default_type
        for suffix in ('', f'_{of_type}') if of_type else ('',):
            demand['volumes' + suffix] += servers
            demand['gigabytes' + suffix] += size_gb * servers
    for name, amount in demand.items():
        _check(quotas, name, amount)
    # a limit for each volume: nothing is in use
    _check(quotas, 'per_volume_gigabytes', largest)


def _check(quotas: Quotas, name: str, amount: int) -> None:
    quota = quotas.get(name)
    if not quota:
        return
    limit, used = quota['limit'], quota['in_use'] + quota['reserved']
    if 0 <= limit < used + amount:
        raise Exceeded(
            f"The project's volume quota {name} is exceeded: {amount} "
            f'requested, {used} in use, {limit} allowed.'
        )
