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

"""What sweeps of tools/io_sweep.py have measured, to be compared."""

import collections
import collections.abc
import dataclasses
import typing

from nova_diskplacer.sweep import stats
from tools.io_sweep import Load

# {load: {arm: [one value for each repetition]}}
Values = dict[Load, dict[str, list[float]]]


@dataclasses.dataclass(frozen=True)
class Measured:
    """What arms, such as schedulers, gave under each load."""

    arms: tuple[str, ...]
    mbps: Values
    jain: Values

    @classmethod
    def of(
        cls, sweeps: collections.abc.Mapping[str, dict[str, typing.Any]]
    ) -> 'Measured':
        """Return what sweeps, by name, have measured.

        Of one sweep, an arm is a scheduler. Of several, it is a sweep, or the
        scheduler of a sweep that has more than one.

        :raises ValueError: the sweeps are not of the same loads.
        """
        mbps: Values = collections.defaultdict(dict)
        jain: Values = collections.defaultdict(dict)
        for name, sweep in sweeps.items():
            for sample in sweep['samples']:
                arm = name
                if len(sweeps) == 1:
                    arm = sample['scheduler']
                elif len(sweep['schedulers']) > 1:
                    arm = f'{name} {sample["scheduler"]}'
                load = Load(
                    sample['engine'], sample['operation'], sample['jobs']
                )
                mbps[load].setdefault(arm, []).append(sample['mbps'])
                jain[load].setdefault(arm, []).append(
                    stats.jain(sample['rates'])
                )
        shapes = {
            tuple((arm, len(values)) for arm, values in sorted(one.items()))
            for one in mbps.values()
        }
        counts = {count for shape in shapes for _, count in shape}
        if len(shapes) != 1 or len(counts) != 1:
            raise ValueError(
                f'{", ".join(sweeps)}: not all have the same loads and '
                'repetitions'
            )
        arms = sorted({arm for one in mbps.values() for arm in one})
        return cls(tuple(arms), dict(mbps), dict(jain))
