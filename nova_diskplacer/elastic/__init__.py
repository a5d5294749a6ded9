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

"""Elastic vdisks: over how many disks a vdisk is striped, and when it moves.

Pure functions decide: ``discovery`` finds the vdisks on disks, ``disk_use``
what they use of them, ``observations`` averages that, ``verdicts`` judges a
vdisk, ``policy`` keeps the state of a host and lets one vdisk at a time move,
``targets`` chooses disks, ``width_changes`` and ``paths`` plan the move, and
``simulation`` replays loads through them. Files, threads and locks are in the
package ``processes`` alone.
"""
