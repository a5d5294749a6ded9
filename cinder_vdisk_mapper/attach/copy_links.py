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

"""Links to vdisks that Cinder copies through dm-crypt.

Cinder copies a volume to one with other encryption, or without, by os-brick's
encryptors, as root. They replace the device that they are given by a link to
their own: the file or the volume of the vdisk would be gone. So they are given
a link. Cinder removes the links of a backend when its service starts.
"""

import glob
import os
import uuid

from cinder.volume import volume_utils
from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.cinder_api.types import is_migrating

LOG = logging.getLogger(__name__)


def is_needed(volume: Volume) -> bool:
    """Return whether Cinder may decrypt the volume while it copies it."""
    return bool(volume.encryption_key_id) and is_migrating(
        volume.migration_status
    )


def add(volume: Volume, path: str, host: str) -> str:
    """Make a link to the device of a volume, and return its path.

    Each attachment gets one of its own: what a killed process has left in
    dm-crypt has the name of the link.

    :param host: Cinder host of the backend.
    """
    link = f'{_prefix(volume)}{uuid.uuid4().hex[:8]}-{host}'
    os.symlink(path, link)
    return link


def remove(volume: Volume, host: str) -> None:
    """Remove the links to the device of a volume, if it has some.

    :param host: Cinder host of the backend.
    """
    prefix, suffix = glob.escape(_prefix(volume)), glob.escape(host)
    for link in glob.glob(f'{prefix}*-{suffix}'):
        try:
            os.unlink(link)
        except OSError as error:
            LOG.warning('The link %s stays: %s', link, error)


def _prefix(volume: Volume) -> str:
    # the device mapper takes no name of more than 127 characters, with the
    # host in it
    name = f'vdisk-{volume.id.replace("-", "")[:16]}-'
    return os.path.join(volume_utils.image_conversion_dir(), name)
