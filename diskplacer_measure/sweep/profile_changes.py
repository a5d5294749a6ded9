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

"""Changes of a profile by the results of a sweep.

A setting changes only if the sweep excludes the value that the profile has.
Its source cites the host, the date, the results and the interval.
"""

import collections.abc
import dataclasses
import typing

from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import results
from nova_diskplacer.profiles import definitions


@dataclasses.dataclass(frozen=True)
class Change:
    """A setting of a profile, by its dotted path, before and after."""

    path: str
    before: typing.Any
    after: typing.Any
    source: str


@dataclasses.dataclass(frozen=True)
class _Comparison:
    """The values of a setting, and the source of their comparison.

    ``chosen`` begins with that of the highest candidate; no candidate with
    one of ``excluded`` is as good.
    """

    chosen: list[typing.Any]
    excluded: list[typing.Any]
    source: str


def changed(
    profile: definitions.Profile,
    choice: choose.Choice,
    header: results.Header,
) -> tuple[definitions.Profile, list[Change]]:
    """Return the profile with the best settings, and the changes."""
    if not choice.claims_optimum:
        return profile, []
    before = definitions.settings(profile)
    sources: dict[str, str] = {}
    for apply in (_shape, _schedulers, _guest, _cache_mode):
        profile, cited = apply(profile, choice, header)
        sources |= cited
    after = definitions.settings(profile)
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


_Applied = tuple[definitions.Profile, dict[str, str]]


def _compare_values(
    choice: choose.Choice, name: str, header: results.Header
) -> _Comparison | None:
    """Compare the values of a setting; None if none is excluded.

    Memory is compared among servers with as many vCPUs as the highest: a shape
    with other vCPUs may be behind because of these.
    """
    compared = list(choice.compared)
    if name == 'ram_mib':
        vcpus = compared[0].candidate.vcpus
        compared = [
            score for score in compared if score.candidate.vcpus == vcpus
        ]
    chosen = list(
        dict.fromkeys(
            getattr(score.candidate, name)
            for score in compared
            if not score.excluded
        )
    )
    excluded = {
        value: score
        for score in reversed(compared)
        if (value := getattr(score.candidate, name)) not in chosen
    }
    if not excluded:
        return None
    next_best = max(excluded.values(), key=lambda score: score.ratio)
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
    return _Comparison(chosen, sorted(excluded), source)


def _shape(
    profile: definitions.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Recommend vCPUs and memory, and do not warn against them."""
    limits = {'vcpus': profile.shape.vcpus, 'ram_gb': profile.shape.ram_gb}
    cited = {}
    for name, attribute, unit in (
        ('vcpus', 'vcpus', 1),
        ('ram_gb', 'ram_mib', 1024),
    ):
        values = _compare_values(choice, attribute, header)
        if values is None:
            continue
        low, high = (_figure(end, unit) for end in _run(values))
        path = f'shape.{name}'
        cited[f'{path}.recommended'] = values.source
        new = dataclasses.replace(limits[name], recommended=(low, high))
        if new.minimum is not None and new.minimum > low:
            new = dataclasses.replace(new, minimum=low)
            cited[f'{path}.minimum'] = values.source
        if new.maximum is not None and new.maximum < high:
            new = dataclasses.replace(new, maximum=high)
            cited[f'{path}.maximum'] = values.source
        limits[name] = new
    shape = dataclasses.replace(profile.shape, **limits)
    return dataclasses.replace(profile, shape=shape), cited


def _run(values: _Comparison) -> tuple[int, int]:
    """Return the ends of the range around the highest with no excluded one."""
    best = values.chosen[0]
    below = [value for value in values.excluded if value < best]
    above = [value for value in values.excluded if value > best]
    inside = [
        value
        for value in values.chosen
        if (not below or value > below[-1]) and (not above or value < above[0])
    ]
    return min(inside), max(inside)


def _figure(value: int, unit: int) -> float:
    whole, rest = divmod(value, unit)
    return whole if not rest else value / unit


def _schedulers(
    profile: definitions.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Prefer a scheduler of the host that is not excluded."""
    values = _compare_values(choice, 'host_scheduler', header)
    if values is None:
        return profile, {}
    medium = header.disk.medium
    queue = profile.queue.get(medium, definitions.Queue())
    first = arm_comparison.preferred(
        queue.schedulers, (*values.chosen, *values.excluded)
    )
    if first in values.chosen:
        return profile, {}
    # others stay, for hosts whose kernel lacks the better ones
    order = tuple(dict.fromkeys((*values.chosen, *queue.schedulers)))
    queue = dataclasses.replace(queue, schedulers=order)
    return dataclasses.replace(
        profile, queue={**profile.queue, medium: queue}
    ), {f'queue.{medium}.schedulers': values.source}


def _guest(
    profile: definitions.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    """Advise a scheduler and a read-ahead in servers."""
    new: dict[str, typing.Any] = {}
    cited = {}
    for name, attribute in (
        ('scheduler', 'guest_scheduler'),
        ('read_ahead_kb', 'read_ahead_kb'),
    ):
        values = _compare_values(choice, attribute, header)
        if values and getattr(profile.guest, name) not in values.chosen:
            new[name] = values.chosen[0]
            cited[f'guest.{name}'] = values.source
    guest = dataclasses.replace(profile.guest, **new)
    return dataclasses.replace(profile, guest=guest), cited


def _cache_mode(
    profile: definitions.Profile, choice: choose.Choice, header: results.Header
) -> _Applied:
    values = _compare_values(choice, 'cache_mode', header)
    if values is None or profile.cache_mode in values.chosen:
        return profile, {}
    new = dataclasses.replace(profile, cache_mode=values.chosen[0])
    return new, {'cache_mode': values.source}


def lines(changes: collections.abc.Iterable[Change]) -> list[str]:
    """Return a line for each change, for people."""
    return [
        f'{change.path}: {_value(change.before)} -> {_value(change.after)}'
        for change in changes
    ]


def _value(value: typing.Any) -> str:
    if value is None:
        return 'unset'
    if isinstance(value, tuple):
        return ', '.join(map(str, value))
    return str(value)
