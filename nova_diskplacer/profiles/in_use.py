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

"""Finds the profiles of the servers that have vdisks on disks."""

import collections.abc

from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import definitions


def by_disk(
    servers: collections.abc.Iterable[libvirt_servers.Server],
    disks: collections.abc.Collection[discover.Disk],
    profiles: collections.abc.Mapping[str, definitions.Profile],
) -> dict[str, list[definitions.Profile]]:
    """Return the profiles of the running servers on each disk, by its UUID.

    Disks without such a server are left out, and so are profiles that are
    unknown.
    """
    running = [server for server in servers if server.running]
    found: dict[str, dict[str, definitions.Profile]] = {}
    for uuid, on_disk in usage.servers_by_disk(running, disks).items():
        for server in on_disk:
            profile = profiles.get(server.extra_specs.get(advice.PROFILE, ''))
            if profile:
                found.setdefault(uuid, {})[profile.name] = profile
    return {uuid: [*some.values()] for uuid, some in found.items()}
