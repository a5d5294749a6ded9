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


def of_volume(volume: cinder_types.Volume, default: str) -> str:
    """Return the mapping of a volume that fills no claim.

    :raises InvalidVolumeType: the mapping of its type is not installed.
    """
    volume_type = volume.volume_type
    return of_type(
        (volume_type.extra_specs if volume_type else None) or {}, default
    )


def of_type(extra_specs: dict[str, str], default: str) -> str:
    """Return the mapping in a type's extra specs.

    :raises InvalidVolumeType: it is not installed.
    """
    policy = extra_specs.get(MAPPING, default)
    if policy not in mapping.names():
        raise cinder_exc.InvalidVolumeType(
            reason=f'{MAPPING}={policy} is not one of: '
            + ', '.join(mapping.names())
        )
    return policy
