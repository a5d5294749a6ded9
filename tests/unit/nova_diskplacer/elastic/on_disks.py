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


"""Disks with an elastic vdisk, as the agent discovers them."""

from nova_diskplacer import constants
from nova_diskplacer.disks import discover
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.vdisk import GIB
from nova_diskplacer.disks.vdisk import VDisk

VOLUME = 'volume'
NAME = 'volume-1'


def piece(location, disk, minimum=1, leg_gb=2, **fields):
    """Return the piece of a vdisk on a disk."""
    return VDisk(
        **{
            'name': NAME,
            'volume_id': VOLUME,
            'server_id': 'server',
            'size_bytes': leg_gb * GIB * max(1, location.count(disk)),
            'stripe': Location(location),
            'minimum': minimum,
            **fields,
        }
    )


def disk(uuid, *vdisks, **fields):
    return discover.Disk(
        **{
            'uuid': uuid,
            'path': f'/disks/{uuid}',
            'device': f'/dev/{uuid}',
            'medium': constants.SSD,
            'model': '',
            'numa_node': None,
            'size_bytes': 100 * GIB,
            'free_bytes': 50 * GIB,
            'total_gb': 100,
            'mbps': 1000,
            'health': discover.OK,
            'vdisks': vdisks,
            **fields,
        }
    )


def disks(location, others='', **fields):
    """Return the disks of a vdisk, and others.

    :param location: a letter, the disk, for each leg.
    """
    return [
        disk(uuid, *([piece(location, uuid, **fields)] * (uuid in location)))
        for uuid in sorted({*location, *others})
    ]
