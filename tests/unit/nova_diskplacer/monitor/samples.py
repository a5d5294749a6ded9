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

"""Samples of an interval, for tests."""

import numpy

from nova_diskplacer.monitor import types


def make_sample(pairs=(), **fields):
    """Return a sample of one second without I/O, except for these fields."""
    if not isinstance(pairs, types.Pairs):
        pairs = types.Pairs(pairs)
    nothing = numpy.zeros(len(pairs), numpy.int64)
    return types.Sample(
        **{
            'seconds': 1.0,
            'pairs': pairs,
            'read_bytes': nothing,
            'write_bytes': nothing,
            'reads': nothing,
            'writes': nothing,
            'charged_seconds': nothing / 1e6,
            'idle': nothing == 1,
            'disks': {},
            'devices': {},
            'unwatched': {},
            'hung': (),
            'consumers': {},
            'history': None,
            'hierarchy': None,
            'servers': (),
            'prepared_disks': (),
            **fields,
        }
    )
