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


from tools.testbed import machine

SERIALS = tuple(f'53d1f9d2-0c4e-4a52-{one}' for one in '0123456789')

# Four that are no volumes, three alike, one that holds something, one of
# another size, and one more that is no volume.
DISKS = (
    *(machine.Disk(node=node) for node in (1, 0, 0, 1)),
    *(machine.Disk(gib=1, serial=SERIALS[one]) for one in range(3)),
    machine.Disk(gib=1, serial=SERIALS[3]),
    machine.Disk(gib=2, serial=SERIALS[4]),
    machine.Disk(gib=1),
)

LONG = True
