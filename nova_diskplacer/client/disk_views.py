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

"""The disks as tables."""

import collections.abc
import dataclasses
import typing

from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import fleet
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.client import views


def disk_table(
    disks: collections.abc.Mapping[str, facts_.Disk], long: bool = False
) -> views.Table:
    """Return a row for each disk."""
    short = facts_.short_names(disks)
    return (
        'Disk',
        'Host',
        'Medium',
        'Health',
        'GiB',
        'Reserved',
        'Claimed',
        'Free',
        'MB/s',
        'MB/s free',
    ), [
        (
            disk.uuid if long else short[disk.uuid],
            disk.host if long else facts_.short_host(disk.host),
            disk.medium or '-',
            disk.health,
            disk.total_gb,
            disk.reserved_gb,
            disk.claimed_gb,
            disk.free_gb,
            disk.total_mbps,
            disk.free_mbps,
        )
        for disk in facts_.ordered(disks.values())
    ]


def disk_fields(
    facts: facts_.Facts, disk: facts_.Disk
) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
    """Return all that is known of a disk, and the servers on it."""
    rows = [
        entry for entry in vdisk_map.entries(facts) if entry.disk == disk.uuid
    ]
    fields = {
        key: '-' if value in (None, '') else value
        for key, value in dataclasses.asdict(disk).items()
    }
    shown = {
        **fields,
        'free_gb': disk.free_gb,
        'free_mbps': disk.free_mbps,
        'vdisks': '\n'.join(
            f'{views.volume_of(entry)} {entry.row.size_gb} GiB '
            f'{entry.server or entry.server_id or "-"} {entry.status}'
            for entry in rows
        ),
    }
    return tuple(shown), tuple(shown.values())


def fleet_table(
    spaces: collections.abc.Mapping[str, fleet.Space],
    rooms: collections.abc.Mapping[tuple[str, str], fleet.Room],
) -> views.Table:
    """Return a row for each flavor on all hosts and in each aggregate.

    :param spaces: by aggregate.
    :param rooms: by aggregate and flavor.
    """
    rows: list[tuple[typing.Any, ...]] = []
    for aggregate, space in spaces.items():
        of_space = (
            aggregate,
            space.hosts,
            space.disks,
            space.free_gb,
            f'{space.committed:.0%}',
            space.largest_gb,
        )
        of_flavors: list[tuple[typing.Any, ...]] = [
            (flavor, room.servers, room.hosts, room.stranded)
            for (name, flavor), room in rooms.items()
            if name == aggregate
        ]
        for of_flavor in of_flavors or [('-', '-', '-', '-')]:
            rows.append((*of_space, *of_flavor))
    return (
        'Aggregate',
        'Hosts',
        'Disks',
        'GiB free',
        'Committed',
        'Largest vdisk',
        'Flavor',
        'Servers',
        'On hosts',
        'GiB stranded',
    ), rows
