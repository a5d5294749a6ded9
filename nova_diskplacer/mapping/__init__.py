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

"""Mappings: which vdisks of a server go on which disks of a host.

A mapping is a pure function over arrays of many hosts at once and a stevedore
plugin of the namespace ``nova_diskplacer.mapping``. Installing a plugin is
all that it takes: extra specs and options allow what is installed.
"""

import functools
import importlib.metadata

NAMESPACE = 'nova_diskplacer.mapping'

CONSOLIDATED = 'consolidated'

#: the mapping that puts a vdisk on several disks
STRIPED = 'striped'

#: the mapping that puts a vdisk on few disks, and later on more
ELASTIC = 'elastic'


@functools.cache
def names() -> tuple[str, ...]:
    """Return the names of the installed mappings, sorted."""
    points = importlib.metadata.entry_points(group=NAMESPACE)
    return tuple(sorted(points.names))


def names_on_one_disk() -> tuple[str, ...]:
    """Return the names of the mappings that put a vdisk on one disk."""
    return tuple(name for name in names() if name not in (STRIPED, ELASTIC))
