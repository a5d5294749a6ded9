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

"""Traits of disks and of compute nodes that have disks."""

from nova_diskplacer import constants

#: Trait of a compute node that has disks; flavors with vdisks require it.
HOST = 'CUSTOM_DISKPLACER_HOST'

#: Trait of a forgotten disk: its provider is in no host's tree.
FORGOTTEN = 'CUSTOM_DISKPLACER_FORGOTTEN'

#: Trait of a disk that is a volume group, which striped vdisks need.
LVM = 'CUSTOM_DISKPLACER_LVM'

#: Traits of a disk, by the host cache mode that its vdisks are attached with.
CACHE_MODES = {
    'none': 'CUSTOM_DISKPLACER_CACHE_NONE',
    'writeback': 'CUSTOM_DISKPLACER_CACHE_WRITEBACK',
    'writethrough': 'CUSTOM_DISKPLACER_CACHE_WRITETHROUGH',
    'directsync': 'CUSTOM_DISKPLACER_CACHE_DIRECTSYNC',
    'unsafe': 'CUSTOM_DISKPLACER_CACHE_UNSAFE',
}

#: Standard traits of a disk, by medium.
MEDIA = {constants.HDD: 'STORAGE_DISK_HDD', constants.SSD: 'STORAGE_DISK_SSD'}

#: Traits of disks that are not offered, by health.
HEALTH = {
    constants.MISSING: 'CUSTOM_DISKPLACER_MISSING',
    constants.HUNG: 'CUSTOM_DISKPLACER_HUNG',
    constants.READ_ONLY: 'CUSTOM_DISKPLACER_READ_ONLY',
}
