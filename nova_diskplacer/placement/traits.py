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

"""Names of the traits of disks and of the hosts that have them."""

#: A compute node that has disks. Flavors that ask for vdisks require it.
HOST = 'CUSTOM_DISKPLACER_HOST'

#: The provider of a disk that was forgotten: in no host's tree.
FORGOTTEN = 'CUSTOM_DISKPLACER_FORGOTTEN'

#: The host cache mode that a disk's vdisks are attached with.
CACHE_MODES = {
    'none': 'CUSTOM_DISKPLACER_CACHE_NONE',
    'writeback': 'CUSTOM_DISKPLACER_CACHE_WRITEBACK',
    'writethrough': 'CUSTOM_DISKPLACER_CACHE_WRITETHROUGH',
    'directsync': 'CUSTOM_DISKPLACER_CACHE_DIRECTSYNC',
    'unsafe': 'CUSTOM_DISKPLACER_CACHE_UNSAFE',
}

#: What a disk is, by medium.
MEDIA = {'hdd': 'STORAGE_DISK_HDD', 'ssd': 'STORAGE_DISK_SSD'}
