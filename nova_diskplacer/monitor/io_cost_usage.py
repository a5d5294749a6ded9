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

"""Reads the device time that io.cost has charged cgroups for.

io.cost holds requests back before they reach the device, so that the device's
statistics lack them. ``cost.usage`` in the root's io.stat is the charged
device time in microseconds.
"""

import contextlib

from nova_diskplacer.host import cgroups

_KEY = 'cost.usage='


def read(hierarchy: cgroups.Hierarchy | None) -> dict[str, float]:
    """Return the charged seconds of each device, by ``major:minor``.

    Devices without io.cost are left out.
    """
    if hierarchy is None or hierarchy.version != 2:
        return {}
    text = ''
    # the root has no io.stat before Linux 5.9
    with (
        contextlib.suppress(OSError),
        open(hierarchy.path('', 'io.stat'), encoding='ascii') as stream,
    ):
        text = stream.read()
    return parse(text)


def parse(text: str) -> dict[str, float]:
    """Return the charged seconds of each device in the text of io.stat."""
    found = {}
    for line in text.splitlines():
        number, *fields = line.split()
        for field in fields:
            if field.startswith(_KEY):
                found[number] = int(field.removeprefix(_KEY)) / 1e6
    return found
