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

"""The settings of the decisions, from ``[diskplacer_elastic]``."""

import dataclasses

from oslo_config import cfg

from nova_diskplacer import exception

_GROUP = 'diskplacer_elastic'


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options of the group of the same names.

    Times are in seconds, pressures and shares from 0 to 1.

    :raises ElasticError: two options contradict each other.
    """

    interval: float
    widen_pressure: float
    widen_share: float
    widen_after: float
    widen_factor: int
    narrow_pressure: float
    narrow_after: float
    narrow_after_max: float
    min_interval: float
    target_pressure: float
    copy_share: float
    max_move_time: float

    def __post_init__(self) -> None:
        # in numbers of an operator, 0.3 + 0.5 is no more than 0.8
        after = round(self.narrow_pressure + self.target_pressure, 9)
        if after > self.widen_pressure:
            raise exception.ElasticError(
                f'[{_GROUP}] narrow_pressure={self.narrow_pressure:g} plus '
                f'target_pressure={self.target_pressure:g} is more than '
                f'widen_pressure={self.widen_pressure:g}'
            )
        if self.narrow_after_max < self.narrow_after:
            raise exception.ElasticError(
                f'[{_GROUP}] narrow_after_max={self.narrow_after_max:g} is '
                f'less than narrow_after={self.narrow_after:g}'
            )

    def quiet_time(self, level: int) -> float:
        """Return the time of quiet before a vdisk is narrowed, in seconds.

        :param level: number of doublings.
        """
        doubled = self.narrow_after * 2.0 ** min(level, self.levels)
        return min(doubled, self.narrow_after_max)

    def retry_time(self, failures: int) -> float:
        """Return the time until a move that failed is tried again, in seconds.

        :param failures: number of failures in succession, at least 1.
        """
        first = max(self.min_interval, self.interval)
        longest = max(first, self.narrow_after_max)
        return min(first * 2.0 ** min(failures - 1, 30), longest)

    @property
    def levels(self) -> int:
        """Number of doublings that lead to the longest time of quiet."""
        level = 0
        while self.narrow_after * 2.0**level < self.narrow_after_max:
            level += 1
        return level


def from_conf(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of a configuration.

    :raises ElasticError: two options contradict each other.
    """
    options = conf[_GROUP]
    names = (field.name for field in dataclasses.fields(Settings))
    return Settings(**{name: options[name] for name in names})
