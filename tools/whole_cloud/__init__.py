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


"""A real OpenStack in a guest of the testbed: real Nova on real LVM and iSCSI.

Two compute hosts with libvirt, each with half of the guest's disks as volume
groups. A server that writes and verifies all the time has a disk drained,
migrates live with its data, and has vdisks that get wider and narrower. See
doc/source/contributor/testbed.rst.
"""

from tools.testbed.machine import Disk

# Those of a node are of the same host.
DISKS = tuple(Disk(node, gib=4, mbps=100) for node in (0, 0, 0, 0, 1, 1, 1, 1))
