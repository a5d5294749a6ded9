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

"""Images on volumes."""

import contextlib
from collections.abc import Iterator
from typing import Any

from cinder.image import image_utils
from cinder.volume import volume_utils

from cinder_vdisk_mapper import core
from cinder_vdisk_mapper import errors
from cinder_vdisk_mapper import naming


class Images(core.Core):
    """Writes images to volumes that are not encrypted."""

    def copy_image_to_volume(
        self,
        context: Any,
        volume: Any,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None:
        """Bind the volume by its policy and write an image to it.

        Cinder's own way truncates a file first, and whatever it took would
        be anybody's until it is written again.

        :raises VolumeDriverException: there is no disk for the volume.
        """
        with self.fetched(context, volume, image_service, image_id) as (
            image,
            volume,
            device,
        ):
            image_utils.convert_image(
                image,
                device,
                'raw',
                src_format='raw',
                disable_sparse=disable_sparse,
                skip_create=True,
            )
        with errors.explained():
            # zeros were written by giving back what they take
            self.backend.extend(
                volume.provider_location, naming.volume(volume), volume.size
            )

    @contextlib.contextmanager
    def fetched(
        self, context: Any, volume: Any, image_service: Any, image_id: str
    ) -> Iterator[tuple[str, Any, str]]:
        """Have an image here, and a volume attached that it is for.

        Yields the path of the image, raw, then the volume, bound by its
        policy, and the path of its device.

        :raises VolumeDriverException: there is no disk for the volume.
        """
        properties = volume_utils.brick_get_connector_properties()
        with image_utils.temporary_file(suffix=self.host) as image:
            image_utils.fetch_to_raw(
                context,
                image_service,
                image_id,
                image,
                self.configuration.volume_dd_blocksize,
                size=volume.size,
            )
            attach_info, volume = self._attach_volume(
                context, volume, properties
            )
            try:
                yield image, volume, attach_info['device']['path']
            finally:
                self._detach_volume(
                    context, attach_info, volume, properties, force=True
                )
