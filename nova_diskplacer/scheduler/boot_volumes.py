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

"""Servers that boot without the volumes for which they would claim disks."""

import collections.abc
import typing

from oslo_log import log as logging

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.scheduler import request as disk_request
from nova_diskplacer.scheduler.server_volumes import BootVolume

LOG = logging.getLogger(__name__)


def fitting(
    request: flavor.VDiskRequest,
    volumes: collections.abc.Iterable[BootVolume],
) -> int:
    """Return the number of volumes that are vdisks of a flavor.

    A volume that exists names neither its type nor whether it is bootable.
    """
    return sum(
        request.is_vdisk(volume.size_gb, volume.volume_type, volume.bootable)
        for volume in volumes
    )


def allow(spec: typing.Any, request: flavor.VDiskRequest) -> bool:
    """Return whether a server may claim disks for the volumes that it brings.

    ``[diskplacer_scheduler] blank_volumes`` decides.
    """
    state = disk_request.state_of(spec)
    treatment: str = conf.CONF.diskplacer_scheduler.blank_volumes
    if treatment == 'ignore' or state.last_run is not None:
        return True
    volumes = disk_request.volumes_of(spec).at_boot
    if volumes is None:
        return True
    number = fitting(request, volumes)
    if number >= request.vdisks:
        return True
    LOG.warning(
        'Server %s brings %d volumes of %d GiB, and its flavor %s has %d '
        'vdisks of this size: %s. Add the filter of nova_diskplacer.api to '
        'api-paste.ini of nova-api to have them added.',
        spec.instance_uuid,
        number,
        request.vdisk_gb,
        spec.flavor.name,
        request.vdisks,
        'no host is valid'
        if treatment == 'require'
        else 'some of what it claims will not be used',
    )
    return treatment != 'require'
