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

"""Between which classes a consumer may be, and whose use counts with its own.

Bounds are in per cent of the number of classes, as flavors, profiles and
projects do not know how many there are.
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
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

BY_PROJECT = 'project'

#: Lowest and highest class, in per cent.
Bounds = tuple[int, int]

WIDEST: Bounds = (0, 100)

_IO_TIER = flavor.NAMESPACE + flavor.IO_TIER
_PROFILE = flavor.NAMESPACE + flavor.PROFILE


@dataclasses.dataclass(frozen=True)
class Party:
    """A consumer among those whose use counts together, its ``group``.

    ``lowest`` and ``highest`` are its classes. The weight of an ``exempt``
    one is left alone, and its use counts for nobody.
    """

    key: str
    group: str
    lowest: int
    highest: int
    exempt: bool


def bounds(conf: cfg.ConfigOpts) -> dict[str, Bounds]:
    """Return the bounds of each tier.

    :raises ContentionError: they are not as they should be, or a project's
        tier is none of them.
    """
    found = {
        name: _bounds(name, text)
        for name, text in conf.diskplacer_weights.tiers.items()
    }
    for project, tier in conf.diskplacer_weights.project_tiers.items():
        if tier not in found:
            known = ', '.join(sorted(found)) or 'none'
            raise exception.ContentionError(
                f'[diskplacer_weights] project_tiers: {tier} of project '
                f'{project} is not one of tiers: {known}'
            )
    return found


def _bounds(name: str, text: str) -> Bounds:
    match = re.fullmatch(r'([0-9]{1,3})-([0-9]{1,3})', text)
    if match:
        low, high = map(int, match.groups())
        if low <= high <= WIDEST[1]:
            return low, high
    raise exception.ContentionError(
        f'[diskplacer_weights] tiers: {name}:{text} is not a name with the '
        'lowest and the highest class in per cent, such as gold:50-100'
    )


def lowest_class(conf: cfg.ConfigOpts) -> int:
    """Return the lowest class that there is."""
    return 0 if conf.diskplacer_weights.idle_class else 1


def parties(
    consumers: collections.abc.Iterable[types.Consumer],
    conf: cfg.ConfigOpts,
    profiles: collections.abc.Mapping[str, catalogue.Profile],
) -> dict[str, Party]:
    """Return what each consumer is, by its key.

    A tier or profile that is not known is logged once, and does not bound.

    :param profiles: the catalogue, where ``diskplacer:profile`` is looked up.
    :raises ContentionError: as ``bounds``.
    """
    options = conf.diskplacer_weights
    tiers = bounds(conf)
    exempt = {name.strip('/') for name in options.exempt} - {''}
    found = {}
    for consumer in consumers:
        low, high = _asked(consumer, tiers, profiles)
        if consumer.project in options.project_tiers:
            limit = tiers[options.project_tiers[consumer.project]]
            high = min(high, limit[1])
            low = min(max(low, limit[0]), high)
        together = options.group_by == BY_PROJECT and consumer.project
        found[consumer.key] = Party(
            key=consumer.key,
            group=consumer.project if together else consumer.key,
            lowest=max(_class(low, options.classes), lowest_class(conf)),
            highest=max(_class(high, options.classes), 1),
            exempt=bool({consumer.key, consumer.project} & exempt),
        )
    return found


def _class(percent: int, classes: int) -> int:
    """Return the class in which a per cent of all classes lies."""
    return -(-percent * classes // 100)


def _asked(
    consumer: types.Consumer,
    tiers: collections.abc.Mapping[str, Bounds],
    profiles: collections.abc.Mapping[str, catalogue.Profile],
) -> Bounds:
    """Return what the flavor asks for: by its tier, else by its profile."""
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
    return WIDEST


@functools.cache
def _warn(spec: str, value: str, known: tuple[str, ...]) -> None:
    LOG.warning(
        '%s=%s, which there are servers with, bounds no class of I/O; it is '
        'not one of: %s',
        spec,
        value,
        ', '.join(known) or 'none',
    )
