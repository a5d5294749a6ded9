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

"""Compares Cinder's database, the disks of a host, Placement and Nova.

The checks do no I/O: they get the state of the host and return findings. A
repair never loses data of a volume or snapshot.
"""

from cinder_vdisk_mapper.audit import claim_checks
from cinder_vdisk_mapper.audit import findings
from cinder_vdisk_mapper.audit import state
from cinder_vdisk_mapper.audit import volume_checks


def compare(host: state.HostState) -> list[findings.Finding]:
    """Return the findings, sorted."""
    found = [
        *volume_checks.check_vdisks(host),
        *volume_checks.check_records(host),
        *claim_checks.check(host),
    ]
    return sorted(
        found, key=lambda one: (one.kind, one.disk, one.vdisk, one.owner)
    )
