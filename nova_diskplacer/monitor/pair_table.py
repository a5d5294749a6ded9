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

"""A table of figures for consumers on disks, kept across intervals."""

from typing import Any

import numpy
import numpy.typing

from nova_diskplacer.monitor import types

Column = numpy.typing.NDArray[Any]


class PairTable:
    """Columns with a row for each of ``pairs``.

    Tables and their columns never change: any thread may keep them.
    """

    def __init__(self, pairs: types.Pairs, **columns: Column) -> None:
        self.pairs = pairs
        self.columns = columns

    def __getitem__(self, name: str) -> Column:
        """Return a column."""
        return self.columns[name]

    def aligned(self, pairs: types.Pairs) -> 'PairTable':
        """Return the table with rows for ``pairs``; new rows are zeros."""
        if pairs.generation == self.pairs.generation:
            return self
        before = {pair: row for row, pair in enumerate(self.pairs)}
        kept = [row for row, pair in enumerate(pairs) if pair in before]
        old = [before[pairs[row]] for row in kept]
        columns = {}
        for name, values in self.columns.items():
            shape = (len(pairs), *values.shape[1:])
            columns[name] = numpy.zeros(shape, values.dtype)
            columns[name][kept] = values[old]
        return PairTable(pairs, **columns)
