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

"""Volumes that are encrypted by LUKS with keys of Cinder.

Nova formats a blank volume when it attaches it, and QEMU decrypts it. Cinder's
drivers create a LUKS image anew, which would truncate the vdisk and free its
space for a moment. So qemu-img creates the header in a file of its own, which
is written to the vdisk, and then writes the image by QEMU's LUKS driver, which
needs an existing device only.

os-brick's encryptors replace the device that they are given by a link to
their own. Nova uses them for providers other than LUKS, so the driver refuses
these providers: the vdisk's file would be replaced. Cinder uses them to copy
a volume to one with other encryption, see ``attach.copy_links``.
"""

import binascii
import contextlib
import os
from collections.abc import Iterator
from typing import Any

from castellan import key_manager
from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import utils
from cinder.image import image_utils
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_utils import units

from cinder_vdisk_mapper.cinder_api.types import Volume
from cinder_vdisk_mapper.features import qemu_img

CONF = cfg.CONF

# id of the key in qemu-img's arguments
_KEY = 'luks'

# of qemu-img's benchmark of hashes, which fails now and then
_ATTEMPTS = 50


def check_provider(volume: Volume) -> None:
    """Check that the provider of an encrypted volume is LUKS.

    :raises VolumeDriverException: it is another one.
    """
    if not volume.encryption_key_id:
        return
    try:
        volume_utils.check_encryption_provider(
            volume, cinder_context.get_admin_context()
        )
    except cinder_exc.VolumeDriverException as error:
        raise cinder_exc.VolumeDriverException(
            message=f'{error}: the encryption of the type of volume '
            f'{volume.id} must be of provider luks, with a cipher and a '
            'key_size'
        ) from error


def write_image(
    context: Any,
    volume: Volume,
    image_id: str,
    path: str,
    device: str,
    host: str,
) -> None:
    """Write a LUKS header and, encrypted, a raw image to a device.

    :param path: of the image.
    :param host: Cinder host of the backend.
    :raises ImageTooBig: the volume is too small for the image and the header.
    """
    with (
        _luks(context, volume) as (options, secret),
        image_utils.temporary_file(suffix=host) as header,
    ):
        utils.execute(
            'qemu-img',
            'create',
            *('-q', '-f', 'luks', '--object', secret),
            *('-o', options, header, '0'),
            attempts=_ATTEMPTS,
            delay_on_retry=False,
        )
        size = volume.size * units.Gi
        needed = os.path.getsize(path) + os.path.getsize(header)
        if needed > size:
            raise cinder_exc.ImageTooBig(
                image_id=image_id,
                reason=f'encrypted it takes {needed} bytes, and the '
                f'volume has {size}',
            )
        # -S 0: do not deallocate zeros
        qemu_img.convert(header, device, device, '-S', '0', '-O', 'raw')
        qemu_img.convert(
            path,
            device,
            f'driver=luks,key-secret={_KEY},file.filename={device}',
            *('--object', secret, '--target-image-opts'),
        )


@contextlib.contextmanager
def _luks(context: Any, volume: Volume) -> Iterator[tuple[str, str]]:
    """Yield the options and the secret of a volume for qemu-img.

    The key is in memory only.
    """
    encryption = volume_utils.check_encryption_provider(volume, context)
    cipher = image_utils.decode_cipher(
        encryption['cipher'], encryption['key_size']
    )
    key: Any = key_manager.API(CONF).get(
        context, encryption['encryption_key_id']
    )
    descriptor = os.memfd_create('passphrase')
    try:
        os.write(descriptor, binascii.hexlify(key.get_encoded()))
        path = f'/proc/{os.getpid()}/fd/{descriptor}'
        yield (
            f'key-secret={_KEY},cipher-alg={cipher["cipher_alg"]},'
            f'cipher-mode={cipher["cipher_mode"]},'
            f'ivgen-alg={cipher["ivgen_alg"]}',
            f'secret,id={_KEY},format=raw,file={path}',
        )
    finally:
        os.close(descriptor)
