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

"""Names that extra specs, reports, traits and the kernel have for disks."""

#: Most disks of a striped vdisk: Cinder keeps their UUIDs in a column of 255
#: characters.
MAX_STRIPE_DISKS = 6

#: Prefix of the device mapper's name of a striped vdisk, before the vdisk's.
STRIPED_DEVICE = 'diskplacer-striped-'

#: Prefix of that of a leg which is moved, before the vdisk's and its number.
MOVING_DEVICE = 'diskplacer-moving-'

#: The largest figure in a report: schedulers add up two of them in an int32.
MAX_FIGURE = (1 << 30) - 1

#: Key of ``data.vdisk`` in the connection of a volume that has come from
#: another host: the name of that host.
MOVING_FROM = 'moving_from'

#: Capability of a backend whose vdisks follow their servers to other hosts.
CAN_MOVE = 'vdisk_moves'

HDD = 'hdd'
SSD = 'ssd'
MEDIA = (HDD, SSD)

OK = 'ok'
MISSING = 'missing'
HUNG = 'hung'
READ_ONLY = 'read-only'
#: The disk's provider belongs to another host and has allocations.
FOREIGN = 'foreign'

#: Only disks whose health is OK are offered to servers.
HEALTH = (OK, MISSING, HUNG, READ_ONLY, FOREIGN)
