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

"""Loads the installed mappings, and NumPy with them.

nova-api and the clients need no more than their names.
"""

import functools

import stevedore

from nova_diskplacer import mapping
from nova_diskplacer.mapping import base


@functools.cache
def load(name: str) -> base.Mapping:
    """Return the mapping of that name.

    :raises ValueError: it is not installed; names those that are.
    """
    if name not in mapping.names():
        raise ValueError(
            f'mapping {name} is not one of those installed: '
            + ', '.join(mapping.names())
        )
    manager = stevedore.DriverManager(
        mapping.NAMESPACE, name, invoke_on_load=True
    )
    plugin: base.Mapping = manager.driver
    return plugin
