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

"""Mapping of each vdisk to several disks, a stripe.

Software that wants one device gets the throughput of several disks.
"""

from nova_diskplacer.mapping import round_robin


class Striped(round_robin.RoundRobin):
    """Pieces of vdisks on distinct disks, least committed disks first.

    It places the pieces of all vdisks, and ``per_disk`` is at most the number
    of vdisks. So many pieces on each disk can always be dealt out such that
    no vdisk has two pieces on one disk: deal them disk by disk to the vdisks
    in turn.
    """
