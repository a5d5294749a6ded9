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

"""Mapping policies: which vdisks of a server go on which disks of a host.

A policy is a pure function over arrays of many hosts at once and a stevedore
plugin of the namespace ``nova_diskplacer.mapping``.
"""

import functools

import stevedore

from nova_diskplacer.mapping.base import Mapping

NAMESPACE = 'nova_diskplacer.mapping'


@functools.cache
def load(name: str) -> Mapping:
    """Return the mapping policy ``name``.

    :raises KeyError: no plugin of that name is installed.
    """
    manager = stevedore.ExtensionManager(NAMESPACE)
    if name not in manager:
        raise KeyError(
            f'no mapping {name!r}; installed: '
            + ', '.join(sorted(manager.names()))
        )
    plugin: type[Mapping] = manager[name].plugin
    return plugin()
