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

"""How much of each device io.cost has given away.

io.cost holds a request back before it is made, so that no statistics of the
device know of it. Its own do: the root's io.stat has in ``cost.usage`` the
device time, in microseconds, that it has charged cgroups for.
"""

import contextlib

from nova_diskplacer.host import cgroups

_KEY = 'cost.usage='


def read(hierarchy: cgroups.Hierarchy | None) -> dict[str, float]:
    """Return the seconds given away of each device, by ``major:minor``.

    Devices without io.cost are left out.
    """
    if hierarchy is None or hierarchy.version != 2:
        return {}
    text = ''
    # the root had no statistics of I/O before Linux 5.9
    with (
        contextlib.suppress(OSError),
        open(hierarchy.path('', 'io.stat'), encoding='ascii') as stream,
    ):
        text = stream.read()
    return parse(text)


def parse(text: str) -> dict[str, float]:
    """Return the same of the content of io.stat."""
    found = {}
    for line in text.splitlines():
        number, *fields = line.split()
        for field in fields:
            if field.startswith(_KEY):
                found[number] = int(field.removeprefix(_KEY)) / 1e6
    return found
