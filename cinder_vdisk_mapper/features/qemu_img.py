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

"""Writes raw content to an existing vdisk, which keeps its blocks.

Cinder's own ``convert_image`` can leave a target as it is since Cinder 29
only; in earlier releases it truncates a file first, so that others could take
its space until it is written again.
"""

from cinder import utils
from cinder.volume import throttling


def convert(source: str, device: str, target: str, *options: str) -> None:
    """Write raw content to an existing device.

    :param target: ``device`` as an argument of qemu-img.
    """
    throttle = throttling.Throttle.get_default()
    with throttle.subcommand(source, device) as throttled:
        utils.execute(
            *throttled['prefix'],
            'qemu-img',
            'convert',
            # -n: qemu-img truncates a new target first, and its space would
            # be free for others meanwhile. Blocks of zeros that it releases
            # still count, and are allocated again at the end.
            *('-n', '-t', 'none', '-f', 'raw'),
            *options,
            source,
            target,
            run_as_root=True,
        )
