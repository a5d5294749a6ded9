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

"""Mapping policies of volume types."""

from cinder import exception as cinder_exc

from cinder_vdisk_mapper import cinder_types
from nova_diskplacer import mapping

# Extra spec of a volume type.
MAPPING = 'vdisk:mapping'


def of_type(volume_type: cinder_types.VolumeType | None, default: str) -> str:
    """Return the mapping of a type's volumes that fill no claim.

    :raises InvalidVolumeType: the mapping is not installed.
    """
    extra_specs = (volume_type and volume_type.extra_specs) or {}
    policy = extra_specs.get(MAPPING, default)
    if policy not in mapping.names():
        raise cinder_exc.InvalidVolumeType(
            reason=f'{MAPPING}={policy} is not one of: '
            + ', '.join(mapping.names())
        )
    return policy
