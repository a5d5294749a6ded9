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

"""A profile as a sweep tells it: the whole profile, with changed settings.

A setting changes only if the sweep excludes what the profile has of it. Its
source cites the host, the date, the results and the interval.
"""

import collections.abc
import dataclasses
import typing

from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import results
from nova_diskplacer.profiles import catalogue


@dataclasses.dataclass(frozen=True)
class Change:
    """A setting of a profile, by its dotted path, before and after."""

    path: str
    before: typing.Any
    after: typing.Any
    source: str


@dataclasses.dataclass(frozen=True)
class _Told:
    """The values of a setting that a sweep tells apart.

    ``chosen`` begins with that of the highest candidate; no candidate with
    one of ``excluded`` is as good.
    """

    chosen: list[typing.Any]
    excluded: list[typing.Any]
    source: str


def changed(
    profile: catalogue.Profile,
    choice: choose.Choice,
    header: results.Header,
) -> tuple[catalogue.Profile, list[Change]]:
    """Return the profile as the choice tells it, and what changed."""
    if not choice.claims_optimum:
        return profile, []
    before = catalogue.settings(profile)
    sources: dict[str, str] = {}
    for apply in (_shape, _schedulers, _guest, _cache_mode):
        profile, cited = apply(profile, choice, header)
        sources |= cited
    after = catalogue.settings(profile)
    changes = [
        Change(path, before.get(path), after[path], source)
        for path, source in sources.items()
        if after[path] != before.get(path)
    ]
    cited = {change.path: change.source for change in changes}
    profile = dataclasses.replace(
        profile, sources={**profile.sources, **cited}
    )
    return profile, changes


_Applied = tuple[catalogue.Profile, dict[str, str]]


def _told(
    choice: choose.Choice, name: str, header: results.Header
) -> _Told | None:
    """Return what is told of a setting, None if nothing is.

    Of memory, only servers with as many vCPUs as the highest tell: a shape
    with other vCPUs may be behind because of these.
    """
    compared = list(choice.compared)
    if name == 'ram_mib':
        vcpus = compared[0].candidate.vcpus
        compared = [one for one in compared if one.candidate.vcpus == vcpus]
    chosen = list(
        dict.fromkeys(
            getattr(one.candidate, name)
            for one in compared
            if not one.excluded
        )
    )
    excluded = {
        value: one
        for one in reversed(compared)
        if (value := getattr(one.candidate, name)) not in chosen
    }
    if not excluded:
        return None
    next_best = max(excluded.values(), key=lambda one: one.ratio)
    source = (
        f'Measured on {header.host}, {header.started[:10]}, results '
        f'{header.id}, throughput of {choose.OBJECTIVES[choice.objective]}: '
        'the next, '
        f'{getattr(next_best.candidate, name)}, gave {next_best.ratio:.3f} '
        f'(95 % interval {next_best.low:.3f} to {next_best.high:.3f}) of the '
        'highest'
    )
    if header.emulated:
        source += '; servers without KVM'
    return _Told(chosen, sorted(excluded), source)


def _shape(
    profile: catalogue.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Recommend vCPUs and memory, and do not warn against them."""
    limits = {'vcpus': profile.shape.vcpus, 'ram_gb': profile.shape.ram_gb}
    cited = {}
    for name, attribute, unit in (
        ('vcpus', 'vcpus', 1),
        ('ram_gb', 'ram_mib', 1024),
    ):
        told = _told(choice, attribute, header)
        if told is None:
            continue
        low, high = (_figure(end, unit) for end in _run(told))
        path = f'shape.{name}'
        cited[f'{path}.recommended'] = told.source
        new = dataclasses.replace(limits[name], recommended=(low, high))
        if new.minimum is not None and new.minimum > low:
            new = dataclasses.replace(new, minimum=low)
            cited[f'{path}.minimum'] = told.source
        if new.maximum is not None and new.maximum < high:
            new = dataclasses.replace(new, maximum=high)
            cited[f'{path}.maximum'] = told.source
        limits[name] = new
    shape = dataclasses.replace(profile.shape, **limits)
    return dataclasses.replace(profile, shape=shape), cited


def _run(told: _Told) -> tuple[int, int]:
    """Return the ends of the range around the highest with no excluded one."""
    best = told.chosen[0]
    below = [one for one in told.excluded if one < best]
    above = [one for one in told.excluded if one > best]
    inside = [
        one
        for one in told.chosen
        if (not below or one > below[-1]) and (not above or one < above[0])
    ]
    return min(inside), max(inside)


def _figure(value: int, unit: int) -> float:
    whole, rest = divmod(value, unit)
    return whole if not rest else value / unit


def _schedulers(
    profile: catalogue.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Prefer a scheduler of the host that is not excluded."""
    told = _told(choice, 'host_scheduler', header)
    if told is None:
        return profile, {}
    medium = header.disk.medium
    queue = profile.queue.get(medium, catalogue.Queue())
    first = arm_comparison.preferred(
        queue.schedulers, (*told.chosen, *told.excluded)
    )
    if first in told.chosen:
        return profile, {}
    # others stay, for hosts whose kernel lacks the better ones
    order = tuple(dict.fromkeys((*told.chosen, *queue.schedulers)))
    queue = dataclasses.replace(queue, schedulers=order)
    return dataclasses.replace(
        profile, queue={**profile.queue, medium: queue}
    ), {f'queue.{medium}.schedulers': told.source}


def _guest(
    profile: catalogue.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Advise a scheduler and a read-ahead in servers."""
    new: dict[str, typing.Any] = {}
    cited = {}
    for name, attribute in (
        ('scheduler', 'guest_scheduler'),
        ('read_ahead_kb', 'read_ahead_kb'),
    ):
        told = _told(choice, attribute, header)
        if told and getattr(profile.guest, name) not in told.chosen:
            new[name] = told.chosen[0]
            cited[f'guest.{name}'] = told.source
    guest = dataclasses.replace(profile.guest, **new)
    return dataclasses.replace(profile, guest=guest), cited


def _cache_mode(
    profile: catalogue.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    told = _told(choice, 'cache_mode', header)
    if told is None or profile.cache_mode in told.chosen:
        return profile, {}
    new = dataclasses.replace(profile, cache_mode=told.chosen[0])
    return new, {'cache_mode': told.source}


def lines(changes: collections.abc.Iterable[Change]) -> list[str]:
    """Return what changed, for people."""
    return [
        f'{one.path}: {_value(one.before)} -> {_value(one.after)}'
        for one in changes
    ]


def _value(value: typing.Any) -> str:
    if value is None:
        return 'unset'
    if isinstance(value, tuple):
        return ', '.join(map(str, value))
    return str(value)
