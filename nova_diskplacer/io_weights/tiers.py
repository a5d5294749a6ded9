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

"""Class limits of consumers by tier and profile, and usage grouping.

Limits are per cent of the number of classes: flavors, profiles and projects do
not depend on that number.
"""

import collections.abc
import dataclasses
import functools
import re

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.monitor import types
from nova_diskplacer.profiles import definitions

LOG = logging.getLogger(__name__)

BY_PROJECT = 'project'

#: Lowest and highest class, in per cent.
ClassRange = tuple[int, int]

ALL_CLASSES: ClassRange = (0, 100)

_IO_TIER = flavor.NAMESPACE + flavor.IO_TIER
_PROFILE = flavor.NAMESPACE + flavor.PROFILE


@dataclasses.dataclass(frozen=True)
class ConsumerPolicy:
    """The group that a consumer's use counts in, and its class limits.

    The use of all consumers in a ``group`` counts together. ``lowest`` and
    ``highest`` are classes. An ``exempt`` consumer keeps its weight, and its
    use does not count.
    """

    group: str
    lowest: int
    highest: int
    exempt: bool


def tier_ranges(conf: cfg.ConfigOpts) -> dict[str, ClassRange]:
    """Return the class range of each tier.

    :raises ContentionError: a range is invalid, or a project's tier is
        unknown.
    """
    ranges = {
        name: _parse_range(name, text)
        for name, text in conf.diskplacer_weights.tiers.items()
    }
    for project, tier in conf.diskplacer_weights.project_tiers.items():
        if tier not in ranges:
            names = ', '.join(sorted(ranges)) or 'none'
            raise exception.ContentionError(
                f'[diskplacer_weights] project_tiers: {tier} of project '
                f'{project} is not one of tiers: {names}'
            )
    return ranges


def _parse_range(name: str, text: str) -> ClassRange:
    match = re.fullmatch(r'([0-9]{1,3})-([0-9]{1,3})', text)
    if match:
        low, high = map(int, match.groups())
        if low <= high <= ALL_CLASSES[1]:
            return low, high
    raise exception.ContentionError(
        f'[diskplacer_weights] tiers: {name}:{text} is not a name with the '
        'lowest and the highest class in per cent, such as gold:50-100'
    )


def lowest_class(conf: cfg.ConfigOpts) -> int:
    """Return the lowest class: 0 with the idle class."""
    return 0 if conf.diskplacer_weights.idle_class else 1


def consumer_policies(
    consumers: collections.abc.Iterable[types.Consumer],
    conf: cfg.ConfigOpts,
    profiles: collections.abc.Mapping[str, definitions.Profile],
) -> dict[str, ConsumerPolicy]:
    """Return the policy of each consumer, by its key.

    An unknown tier or profile is logged once, and sets no limits.

    :raises ContentionError: as ``tier_ranges``.
    """
    options = conf.diskplacer_weights
    tiers = tier_ranges(conf)
    exempt = {name.strip('/') for name in options.exempt} - {''}
    policies = {}
    for consumer in consumers:
        low, high = _requested_range(consumer, tiers, profiles)
        if consumer.project in options.project_tiers:
            limit = tiers[options.project_tiers[consumer.project]]
            high = min(high, limit[1])
            low = min(max(low, limit[0]), high)
        by_project = options.group_by == BY_PROJECT and consumer.project
        policies[consumer.key] = ConsumerPolicy(
            group=consumer.project if by_project else consumer.key,
            lowest=max(class_at(low, options.classes), lowest_class(conf)),
            highest=max(class_at(high, options.classes), 1),
            exempt=bool({consumer.key, consumer.project} & exempt),
        )
    return policies


def class_at(percent: int, classes: int) -> int:
    """Return the class at a percentage of all classes, rounded up."""
    return -(-percent * classes // 100)


def _requested_range(
    consumer: types.Consumer,
    tiers: collections.abc.Mapping[str, ClassRange],
    profiles: collections.abc.Mapping[str, definitions.Profile],
) -> ClassRange:
    """Return the range that the flavor requests, by tier or else profile."""
    specs = dict(consumer.extra_specs)
    name = specs.get(_PROFILE)
    profile = profiles.get(name) if name else None
    if profile:
        specs = {**profile.specs, **specs}
    tier = specs.get(_IO_TIER)
    if tier:
        if tier in tiers:
            return tiers[tier]
        _warn(_IO_TIER, tier, tuple(sorted(tiers)))
    elif profile:
        return (0, profile.weight)
    elif name:
        _warn(_PROFILE, name, tuple(sorted(profiles)))
    return ALL_CLASSES


@functools.cache
def _warn(spec: str, value: str, allowed: tuple[str, ...]) -> None:
    LOG.warning(
        '%s=%s of running servers sets no limits of I/O classes: it is not '
        'one of: %s',
        spec,
        value,
        ', '.join(allowed) or 'none',
    )
