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

"""Options of cinder.conf: of backend sections, and shared with nova.conf."""

from typing import Any

from oslo_config import cfg

from nova_diskplacer import flavor
from nova_diskplacer import mapping
from nova_diskplacer.conf import api
from nova_diskplacer.conf import diskplacer

# The group that Cinder's drivers share: its values are the defaults of all
# backends' sections.
SHARED_GROUP = 'backend_defaults'

#: values of ``vdisk_connection``
FILE = 'file'
BLOCK = 'block'

OPTS = [
    cfg.StrOpt(
        'vdisk_disk_root',
        default='$diskplacer.disk_root',
        help="""
Directory that holds one entry per prepared disk of this host, by default
``[diskplacer] disk_root``.

It must be the same directory as ``[diskplacer] disk_root`` of the host's
``diskplacer-agent`` and ``diskplacer-manage``.

The directory and those above it must be owned and writable by root only,
except sticky ones above it; volumes cannot be used otherwise.
""",
    ),
    cfg.StrOpt(
        'vdisk_media',
        default=flavor.ANY,
        choices=flavor.MEDIA,
        help="""
Medium of the disks that the backend uses: rotational (``hdd``), solid state
(``ssd``) or ``any``.

Two backends of one host must not use the same disks.
""",
    ),
    cfg.StrOpt(
        'vdisk_default_mapping',
        default=flavor.ROUND_ROBIN,
        choices=mapping.names_on_one_disk(),
        help="""
Mapping of volumes for which no server has a claim: volumes that are
hot-plugged into a server, and volumes that are filled before they are
attached. It is the name of an installed plugin of the namespace
``nova_diskplacer.mapping``, except ``striped`` and ``elastic``, which are for
the volumes of flavors only. ``round_robin``, for example, chooses a disk that
holds no other vdisk of the server.

The extra spec ``vdisk:mapping`` of the volume's type takes precedence.
""",
    ),
    cfg.StrOpt(
        'vdisk_backend',
        default='filesystem',
        help="""
Storage of vdisks on a disk: a plugin of the namespace
``cinder_vdisk_mapper.backend``. ``filesystem`` stores each vdisk in a
preallocated raw file, on disks that were prepared as filesystems. ``lvm``
stores each vdisk in a logical volume, on disks that were prepared with
``--backend lvm``, and wipes deleted vdisks as ``volume_clear``,
``volume_clear_size`` and ``volume_clear_ionice`` configure it.
""",
    ),
    cfg.StrOpt(
        'vdisk_connection',
        default=FILE,
        choices=(FILE, BLOCK),
        help="""
What servers attach where a vdisk is a file: the ``file``, or a ``block``
device, a loop device with direct I/O on it. Logical volumes are always
attached as block devices.

libvirt does not migrate a running server with a file of its host. A server
keeps what it has attached until the volume is attached anew: after it was
detached, or when Nova migrates, resizes or unshelves the server.

``block`` takes the kernel's ``loop`` module, and cinder-volume and libvirtd
with the host's ``/dev``.
""",
    ),
]


DISKPLACER_GROUP = cfg.OptGroup(
    diskplacer.GROUP.name,
    title='Disks, profiles and locks',
    help="""
Directories of the workload profiles that flavors name, as in nova.conf,
and of the disks and locks that cinder-volume shares with
``diskplacer-agent`` and ``diskplacer-manage``, and the name of this host in
Placement.
""",
)
DISKPLACER_OPTS = [
    diskplacer.DISK_ROOT,
    diskplacer.COMPUTE_NODE,
    diskplacer.PROFILE_DIRS,
    diskplacer.LOCK_DIR,
]


def register_opts(config: cfg.ConfigOpts) -> None:
    """Register all options, the drivers' shared ones too; safe to repeat."""
    config.register_opts(OPTS, group=SHARED_GROUP)
    config.register_opts(DISKPLACER_OPTS, group=DISKPLACER_GROUP)


def list_opts() -> list[tuple[Any, list[Any]]]:
    """Entry point of ``oslo.config.opts``."""
    return [
        (SHARED_GROUP, OPTS),
        (DISKPLACER_GROUP, DISKPLACER_OPTS),
        (api.GROUP, api.OPTS),
    ]
