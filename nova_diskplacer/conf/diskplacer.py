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
Prepared local disks and profiles. ``diskplacer-agent`` and
``diskplacer-manage`` read the group on every compute node; nova-api,
nova-scheduler, Cinder's services and diskplacer-vendordata read
``profile_dirs``.
""",
)

DISK_ROOT = cfg.StrOpt(
    'disk_root',
    default='/var/lib/diskplacer/disks',
    help="""
Directory that holds one entry per prepared disk of this host, named by the
disk's identity (a UUID): a mount point, or a symbolic link to a directory
that is a filesystem of its own.

``diskplacer-manage disk prepare`` makes the entries; ``diskplacer-agent``
reports the disks found here and the Cinder driver allocates on them. If you
change it, set it in their configuration files to the same value.
""",
)

#: The default of earlier releases. Debian's nova-common closes /etc/nova to
#: other users, such as those of Cinder and the vendor data service.
FORMER_PROFILE_DIR = '/etc/nova/diskplacer/profiles.d'

PROFILE_DIRS = cfg.ListOpt(
    'profile_dirs',
    default=[FORMER_PROFILE_DIR, '/etc/nova-diskplacer/profiles.d'],
    help="""
Directories with an operator's own profiles, one in each ``*.yaml`` file.
Directories are read in this order, their files in the order of names; a
profile replaces an earlier or shipped one of the same name. Directories that
do not exist are ignored.

All services that read profiles, each as its own user, must be able to read
the directories. The first of the default ones is that of earlier releases: a
process that may not look into it logs a warning and ignores it.

A process reads profiles when it first needs one: restart nova-api,
nova-scheduler, diskplacer-agent, diskplacer-vendordata, cinder-scheduler and
cinder-volume after a change. Keep the files the same on all hosts.
""",
)

LOCK_DIR = cfg.StrOpt(
    'lock_dir',
    default='/run/diskplacer',
    help="""
Directory of the locks by which processes of this host take turns at changing
an LVM disk, measuring a disk or changing a disk's queue, and of the list of
the volume groups' devices.

``diskplacer-agent``, ``diskplacer-manage`` and cinder-volume must use the same
directory: set the option in their configuration files to the same value. If
they run in containers, mount the directory in all of them. A reboot should
empty it. Only root may have permission to write to it. It is made if it is
missing.
""",
)

COMPUTE_NODE = cfg.StrOpt(
    'compute_node',
    help="""
Name of the compute node's resource provider in Placement, which is its
hypervisor hostname. The disks' providers become its children.

If unset, it is the host name as libvirt determines it for nova-compute: the
name of the machine if it has a dot, else its canonical name by the resolver,
else its short name. Set the option where several compute services run on one
machine, or where ``openstack hypervisor list`` shows another name, for
``diskplacer-agent`` and in cinder.conf, for ``diskplacer-manage disk audit``.
""",
)

OPTS = [
    DISK_ROOT,
    COMPUTE_NODE,
    LOCK_DIR,
    PROFILE_DIRS,
]
