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

"""Conditions of a measurement: the disk is unused and not throttled."""

import contextlib

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.host import files


def locked(uuid: str) -> contextlib.AbstractContextManager[None]:
    """Lock a disk against other measurements.

    :raises DiskError: another process measures it.
    """
    return files.sole(
        f'measure-{uuid}',
        exception.DiskError(f'disk {uuid} is being measured already'),
    )


def root_cgroup() -> str:
    """Return the directory of the cgroup whose I/O no controller throttles.

    '' without a hierarchy of cgroups.
    """
    try:
        return cgroups.hierarchy().root
    except exception.ContentionError:
        return ''
