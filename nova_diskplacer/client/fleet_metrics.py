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

"""Writes the fleet's figures for the textfile collector of node_exporter."""

import collections.abc

import prometheus_client

from nova_diskplacer import exception
from nova_diskplacer.client import fleet

_GIB = 1 << 30


def write(
    path: str,
    spaces: collections.abc.Mapping[str, fleet.Space],
    rooms: collections.abc.Mapping[tuple[str, str], fleet.Room],
) -> None:
    """Write the figures as metrics; a reader never finds half a file.

    :param spaces: by aggregate.
    :param rooms: by aggregate and flavor.
    :raises DiskPlacerError: the file cannot be written.
    """
    registry = prometheus_client.CollectorRegistry()

    def gauge(name: str, help_: str, *labels: str) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(
            f'diskplacer_fleet_{name}',
            help_,
            ('aggregate', *labels),
            registry=registry,
        )

    committed = gauge('committed_ratio', 'Share of the space that is claimed')
    free = gauge('free_bytes', 'Space that no server claims')
    largest = gauge('largest_vdisk_bytes', 'Largest vdisk that a disk holds')
    for aggregate, space in spaces.items():
        committed.labels(aggregate).set(space.committed)
        free.labels(aggregate).set(space.free_gb * _GIB)
        largest.labels(aggregate).set(space.largest_gb * _GIB)
    servers = gauge('servers', 'Servers of a flavor that fit', 'flavor')
    hosts = gauge('hosts', 'Hosts that hold a server of a flavor', 'flavor')
    stranded = gauge(
        'stranded_bytes',
        'Free space that no server of a flavor can use',
        'flavor',
        'reason',
    )
    for (aggregate, flavor), room in rooms.items():
        servers.labels(aggregate, flavor).set(room.servers)
        hosts.labels(aggregate, flavor).set(room.hosts)
        for reason, gb in room.stranded_gb.items():
            stranded.labels(aggregate, flavor, reason).set(gb * _GIB)
    try:
        prometheus_client.write_to_textfile(path, registry)
    except OSError as error:
        raise exception.DiskPlacerError(f'--metrics {path}: {error}') from None
