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

"""Encrypted volumes: LUKS, whose keys are Cinder's.

Nova formats a blank volume when it attaches it, and QEMU decrypts it. An
image is written through qemu-img: the vdisk is written to and never made
anew, so it stays allocated in full and reserved.

os-brick's encryptors put a link to their own device in the place of the
device that they are given. Nova uses them for providers other than LUKS, so
these are refused: the vdisk's file would be replaced. Cinder uses them to
copy a volume to one with another key, so it is given a link.
"""

import binascii
import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from castellan import key_manager
from cinder import context as cinder_context
from cinder import exception as cinder_exc
from cinder import utils
from cinder.image import image_utils
from cinder.volume import throttling
from cinder.volume import volume_utils
from oslo_config import cfg
from oslo_utils import units

from cinder_vdisk_mapper import images

CONF = cfg.CONF

# what qemu-img's arguments call a key
_KEY = 'luks'

_LINK = 'link'

_ATTEMPTS = 50


class Luks(NamedTuple):
    """How a volume is encrypted: arguments of qemu-img."""

    options: str
    secret: str


class Encryption(images.Images):
    """Images on encrypted volumes."""

    def check_encryption(self, volume: Any) -> None:
        """See that a volume, if it is encrypted, is so by LUKS.

        :raises VolumeDriverException: it is to be encrypted otherwise.
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

    def copy_image_to_encrypted_volume(
        self,
        context: Any,
        volume: Any,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Bind a volume by its policy, and write an image to it by LUKS.

        :raises ImageTooBig: the volume cannot hold the image and the header.
        """
        with (
            self.fetched(context, volume, image_service, image_id) as (
                image,
                volume,
                device,
            ),
            _luks(context, volume) as luks,
        ):
            self._encrypt(
                luks, image, image_id, device, volume.size * units.Gi
            )

    def _encrypt(
        self, luks: Luks, image: str, image_id: str, device: str, size: int
    ) -> None:
        """Write a header and, encrypted, an image to a device.

        :param size: of the device, in bytes.
        """
        with image_utils.temporary_file(suffix=self.host) as header:
            utils.execute(
                'qemu-img',
                'create',
                *('-q', '-f', 'luks', '--object', luks.secret),
                *('-o', luks.options, header, '0'),
                # it measures how fast it hashes, which may fail by chance
                attempts=_ATTEMPTS,
                delay_on_retry=False,
            )
            needed = os.path.getsize(image) + os.path.getsize(header)
            if needed > size:
                raise cinder_exc.ImageTooBig(
                    image_id=image_id,
                    reason=f'encrypted it takes {needed} bytes, of which '
                    f'the volume has {size}',
                )
            # -S 0: zeros must not free what is allocated
            _convert(header, device, device, '-S', '0', '-O', 'raw')
        _convert(
            image,
            device,
            f'driver=luks,key-secret={_KEY},file.filename={device}',
            *('--object', luks.secret, '--target-image-opts'),
        )

    def _connect_device(self, conn: dict[str, Any]) -> dict[str, Any]:
        """Attach a volume to this host; by a link if it is encrypted."""
        attach_info: dict[str, Any] = super()._connect_device(conn)
        if not conn['data'].get('encrypted'):
            return attach_info
        device = attach_info['device']
        # Cinder removes what is named so when it starts
        link = os.path.join(
            volume_utils.image_conversion_dir(),
            f'{uuid.uuid4().hex[:12]}-{self.host}',
        )
        os.symlink(device['path'], link)
        return {
            **attach_info,
            'device': {**device, 'path': link, _LINK: link},
        }

    def _detach_volume(
        self, context: Any, attach_info: Any, *args: Any, **kwargs: Any
    ) -> None:
        try:
            super()._detach_volume(context, attach_info, *args, **kwargs)
        finally:
            if attach_info and _LINK in attach_info['device']:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(attach_info['device'][_LINK])


@contextlib.contextmanager
def _luks(context: Any, volume: Any) -> Iterator[Luks]:
    """Provide how a volume is encrypted, with its key in memory only."""
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
        yield Luks(
            f'key-secret={_KEY},cipher-alg={cipher["cipher_alg"]},'
            f'cipher-mode={cipher["cipher_mode"]},'
            f'ivgen-alg={cipher["ivgen_alg"]}',
            f'secret,id={_KEY},format=raw,file={path}',
        )
    finally:
        os.close(descriptor)


def _convert(source: str, device: str, target: str, *options: str) -> None:
    """Write raw content to what exists already.

    :param target: ``device`` as qemu-img is told it.
    """
    throttle = throttling.Throttle.get_default()
    with throttle.subcommand(source, device) as throttled:
        utils.execute(
            *throttled['prefix'],
            'qemu-img',
            'convert',
            *('-n', '-t', 'none', '-f', 'raw'),
            *options,
            source,
            target,
            run_as_root=True,
        )
