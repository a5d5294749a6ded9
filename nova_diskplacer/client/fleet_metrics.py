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

#: Labels and meaning of each gauge, by its name.
GAUGES = {
    'diskplacer_fleet_committed_ratio': (
        ('aggregate',),
        'Share of the space that servers claim',
    ),
    'diskplacer_fleet_free_bytes': (
        ('aggregate',),
        'Space that no server claims',
    ),
    'diskplacer_fleet_largest_vdisk_bytes': (
        ('aggregate',),
        'Largest vdisk that a disk has room for',
    ),
    'diskplacer_fleet_servers': (
        ('aggregate', 'flavor'),
        'Servers of a flavor that find disks',
    ),
    'diskplacer_fleet_hosts': (
        ('aggregate', 'flavor'),
        'Hosts with disks for a server of a flavor',
    ),
    'diskplacer_fleet_stranded_bytes': (
        ('aggregate', 'flavor', 'reason'),
        'Free space that no server of a flavor can use',
    ),
}


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
    gauges = {
        name: prometheus_client.Gauge(name, text, labels, registry=registry)
        for name, (labels, text) in GAUGES.items()
    }

    def set_(name: str, value: float, *labels: str) -> None:
        gauges[f'diskplacer_fleet_{name}'].labels(*labels).set(value)

    for aggregate, space in spaces.items():
        set_('committed_ratio', space.committed, aggregate)
        set_('free_bytes', space.free_gb * _GIB, aggregate)
        set_('largest_vdisk_bytes', space.largest_gb * _GIB, aggregate)
    for (aggregate, flavor), room in rooms.items():
        set_('servers', room.servers, aggregate, flavor)
        set_('hosts', room.hosts, aggregate, flavor)
        for reason, gb in room.stranded_gb.items():
            set_('stranded_bytes', gb * _GIB, aggregate, flavor, reason)
    try:
        prometheus_client.write_to_textfile(path, registry)
    except OSError as error:
        raise exception.DiskPlacerError(f'--metrics {path}: {error}') from None
