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

"""Writes images to volumes that are not encrypted."""

import contextlib
from collections.abc import Iterator
from typing import Any

from cinder.image import image_utils


@contextlib.contextmanager
def fetched(
    context: Any,
    image_service: Any,
    image_id: str,
    size_gb: int,
    host: str,
    blocksize: str,
) -> Iterator[str]:
    """Download an image and yield the path of a raw temporary file.

    :param size_gb: of the volume.
    :param host: Cinder host of the backend, which removes such files when it
        starts.
    :param blocksize: for ``dd``.
    """
    with image_utils.temporary_file(suffix=host) as path:
        image_utils.fetch_to_raw(
            context, image_service, image_id, path, blocksize, size=size_gb
        )
        yield path


def write(path: str, device: str, disable_sparse: bool) -> None:
    """Write a raw image to an existing device.

    Cinder's own way truncates a file first, so that others could take its
    space until it is written again.
    """
    image_utils.convert_image(
        path,
        device,
        'raw',
        src_format='raw',
        disable_sparse=disable_sparse,
        skip_create=True,
    )
