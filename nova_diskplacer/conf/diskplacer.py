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

"""Options that every part of the project reads."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer',
    title='Disk placement',
    help="""
Where prepared local disks and profiles are found. Read by
``diskplacer-agent`` and ``diskplacer-manage`` on every compute node,
``profile_dirs`` by nova-scheduler too.
""",
)

PROFILE_DIRS = cfg.ListOpt(
    'profile_dirs',
    default=['/etc/nova/diskplacer/profiles.d'],
    help="""
Directories with an operator's own profiles, one in each ``*.yaml`` file.
They are read in this order, the files of each by name; a profile replaces
one of the same name that was read before or is shipped. A directory that
does not exist holds none.

A process reads them when it first needs a profile: restart nova-scheduler,
diskplacer-agent, cinder-scheduler and cinder-volume after a change. Keep the
files the same on all hosts.
""",
)

OPTS = [
    cfg.StrOpt(
        'disk_root',
        default='/var/lib/diskplacer/disks',
        help="""
Directory that holds one entry per prepared disk of this host, named by the
disk's identity (a UUID): a mount point, or a symbolic link to a directory
that is a filesystem of its own.

``diskplacer-manage disk prepare`` makes the entries; the agent reports the
disks found here and the Cinder driver allocates on them. Set the Cinder
backend's ``vdisk_disk_root`` to the same directory.
""",
    ),
    cfg.StrOpt(
        'compute_node',
        help="""
Name of the compute node's resource provider in Placement, which is its
hypervisor hostname. The disks' providers become its children.

Unset: the host name as libvirt determines it, which is what nova-compute goes
by: the name of the machine if it has a dot, else the canonical name that the
resolver has for it, else the short name. Set it where several compute services
run on one machine, or where ``openstack hypervisor list`` shows another name.
""",
    ),
    PROFILE_DIRS,
]
