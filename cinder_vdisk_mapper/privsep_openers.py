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

"""The root helper that sees which processes have a remote vdisk open.

The kernel shows what other processes have open to who may trace them. So this
helper has that right, and the others, which change vdisks, do not.
"""

from oslo_privsep import capabilities
from oslo_privsep import priv_context

from cinder_vdisk_mapper import privsep
from nova_diskplacer.disks import links
from nova_diskplacer.disks import remote

context = priv_context.PrivContext(
    'cinder_vdisk_mapper',
    cfg_section='vdisk_openers_privsep',
    pypath=__name__ + '.context',
    capabilities=[
        capabilities.CAP_DAC_READ_SEARCH,
        capabilities.CAP_SYS_PTRACE,
    ],
)


@privsep.entry_point(context)
def remote_in_use(disk_root: str, name: str) -> bool:
    """Return whether a process of the host has a remote vdisk open.

    :raises DiskError: this is not known, or other users than root can change
        ``disk_root``.
    """
    device = links.remote_device(privsep.check_root_owned(disk_root), name)
    return device is not None and remote.in_use(device)
