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

"""The testbed itself, seen from inside."""

from tools.testbed.machine import Disk

DISKS = (
    Disk(node=0, gib=2, mbps=20),
    Disk(node=1, gib=2, mbps=10),
    Disk(node=1, gib=2, iops=150),
    Disk(node=0, gib=3),
    Disk(node=0, gib=8, kind='hdd'),
)

LONG = True
