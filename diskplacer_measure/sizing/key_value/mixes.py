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

"""The mixes of operations: YCSB's core workloads A, B and C (P1 Table II)."""

import collections.abc
import random

from diskplacer_measure.sizing.key_value import zipfian

READ = 'read'
UPDATE = 'update'


#: The part of reads in each workload; the others are updates.
READS = {'a': 0.5, 'b': 0.95, 'c': 1.0}


def operations(
    reads: float, records: int, count: int, source: random.Random
) -> collections.abc.Iterator[tuple[str, int]]:
    """Yield so many operations: READ or UPDATE, and the number of a record.

    :param reads: the part of reads.
    :param records: the number of records, 1 or more.
    """
    keys = zipfian.Records(records, source)
    for _ in range(count):
        kind = READ if source.random() < reads else UPDATE
        yield kind, keys.draw()
