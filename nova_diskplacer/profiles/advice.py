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

"""The effect of a profile on a flavor, and contradictions between them."""

import collections.abc
import dataclasses
import typing

from nova_diskplacer import flavor
from nova_diskplacer.placement import traits
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import queue_policy

PROFILE = flavor.NAMESPACE + flavor.PROFILE
_NUMA = flavor.NAMESPACE + 'numa'
_GUEST = flavor.NAMESPACE + flavor.GUEST
_MEDIA = flavor.NAMESPACE + 'media'

_VOLUME_TYPE = flavor.NAMESPACE + flavor.VOLUME_TYPE
_COUNT_AND_SIZE = (flavor.NAMESPACE + 'vdisks', flavor.NAMESPACE + 'vdisk_gb')

# A flavor sets these itself; the shape of the profile limits them.
_FREE = {*_COUNT_AND_SIZE, _VOLUME_TYPE}

_UNITS = {
    'vcpus': 'vCPUs',
    'ram_gb': 'GiB of memory',
    'vdisks': 'vdisks',
}

# Without it, Placement may return too many hosts without disks.
_REQUIRED = {f'trait:{traits.HOST}': 'required'}

Profiles = collections.abc.Mapping[str, definitions.Profile]


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor of Nova's."""

    name: str
    vcpus: int
    ram_mb: int
    extra_specs: definitions.Specs


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem of a flavor.

    ``source`` is the place in a paper that advises against it, empty if it is
    no advice of a paper.
    """

    flavor: str
    profile: str
    text: str
    source: str = ''


def specs_with_profile(
    profile: definitions.Profile,
    specs: definitions.Specs,
    profiles: Profiles,
    volume_type: str | None = None,
) -> dict[str, str]:
    """Return a flavor's extra specs after a profile is applied.

    Nova's own extra specs are set as in the profile, and hosts with disks
    required. Number, size and volume type of the vdisks are set unless the
    flavor has its own, so that Nova's API shows users what the flavor gives;
    the profile's other defaults are left to the scheduler. Extra specs that
    the previous profile had set are removed, number and size both or neither.

    :param volume_type: that of a profile without one.
    """
    before = profiles.get(specs.get(PROFILE, ''))
    removed = _written(before) if before else {}
    if any(
        specs.get(key, removed.get(key)) != removed.get(key)
        for key in _COUNT_AND_SIZE
    ):
        # the flavor's own, although one of them may be as in the profile
        for key in _COUNT_AND_SIZE:
            removed.pop(key, None)
    left = {
        key: value for key, value in specs.items() if removed.get(key) != value
    }
    after = {**_written(profile), **left, **profile.hw, **_REQUIRED}
    if volume_type and all(key in after for key in _COUNT_AND_SIZE):
        after.setdefault(_VOLUME_TYPE, volume_type)
    return {**after, PROFILE: profile.name}


def _written(profile: definitions.Profile) -> dict[str, str]:
    """Return the extra specs of a profile that are written to flavors."""
    shown = {key: profile.specs[key] for key in _FREE & profile.specs.keys()}
    return {**shown, **profile.hw}


def effective_specs(
    specs: definitions.Specs, profiles: Profiles
) -> dict[str, str]:
    """Return a flavor's extra specs with its profile's defaults filled in."""
    profile = profiles.get(specs.get(PROFILE, ''))
    if profile is None:
        return dict(specs)
    return {**profile.specs, **specs, PROFILE: profile.name}


def profile_specs(profile: definitions.Profile) -> dict[str, str]:
    """Return the extra specs of a flavor with all settings of a profile."""
    return {PROFILE: profile.name, **profile.specs, **profile.hw, **_REQUIRED}


def check(flavor_: Flavor, profiles: Profiles) -> list[Finding]:
    """Return the problems of a flavor's extra specs and size.

    Flavors without ``diskplacer:`` extra specs have none. Of a flavor without
    a profile, only errors that the scheduler would refuse are found, and a
    framework in the guest that has no vdisks.
    """
    name = flavor_.extra_specs.get(PROFILE, '')
    try:
        request = flavor.parse(flavor_.extra_specs, profiles)
    except ValueError as error:
        return [Finding(flavor_.name, name, str(error))]
    findings = []
    guest = flavor_.extra_specs.get(_GUEST, flavor.NONE)
    if request is None and guest != flavor.NONE:
        text = f'{_GUEST}={guest} has no effect without vdisks'
        findings.append(Finding(flavor_.name, name, text))
    profile = profiles.get(name)
    if profile is None:
        return findings
    figures = {'vcpus': flavor_.vcpus, 'ram_gb': flavor_.ram_mb / 1024}
    if request is not None:
        figures['vdisks'] = request.vdisks
    return findings + [
        Finding(
            flavor_.name, profile.name, text, profile.sources.get(path, '')
        )
        for path, text in (
            *_overridden(profile, flavor_.extra_specs),
            *_shape_violations(profile.shape, figures),
        )
    ]


def media_without_bfq(profile: definitions.Profile | None) -> frozenset[str]:
    """Return the media for which a profile excludes BFQ."""
    queues = profile.queue if profile else {}
    return frozenset(
        medium
        for medium, queue in queues.items()
        if queue_policy.excludes_bfq(queue)
    )


def weights_left_out(
    profile: definitions.Profile, specs: definitions.Specs
) -> list[Finding]:
    """Return a finding if a profile leaves hard disks without I/O weights.

    No flavor is wrong because of it: its hosts may have no weights.

    :param specs: all extra specs of the flavor.
    """
    medium = specs.get(_MEDIA, flavor.ANY)
    if medium == flavor.SSD or flavor.HDD not in media_without_bfq(profile):
        return []
    text = queue_policy.left_out(
        profile.name, flavor.HDD, profile.queue[flavor.HDD]
    )
    where = 'on hosts with [diskplacer_weights] mode=on'
    return [Finding('', profile.name, f'{where}: {text}')]


def _overridden(
    profile: definitions.Profile, specs: definitions.Specs
) -> collections.abc.Iterator[tuple[str, str]]:
    for path, wishes in (('specs', profile.specs), ('hw', profile.hw)):
        for key, wish in wishes.items():
            value = specs.get(key, wish)
            stricter = key == _NUMA and (
                flavor.NUMA.index(value) > flavor.NUMA.index(wish)
            )
            if key not in _FREE and value != wish and not stricter:
                yield f'{path}.{key}', f'{key}={value}, the profile has {wish}'


def _shape_violations(
    shape: definitions.Shape, figures: dict[str, float]
) -> collections.abc.Iterator[tuple[str, str]]:
    for name, figure in figures.items():
        limits: definitions.Limits = getattr(shape, name)
        low, high = limits.recommended or (figure, figure)
        if limits.minimum is not None and figure < limits.minimum:
            broken, advice = 'minimum', f'{limits.minimum:g} or more advised'
        elif limits.maximum is not None and figure > limits.maximum:
            broken, advice = 'maximum', f'{limits.maximum:g} or fewer advised'
        elif not low <= figure <= high:
            broken, advice = 'recommended', f'best with {between((low, high))}'
        else:
            continue
        yield (
            f'shape.{name}.{broken}',
            f'{figure:g} {_UNITS[name]}, {advice}',
        )


def between(ends: tuple[typing.Any, typing.Any]) -> str:
    """Return a range in words."""
    low, high = ends
    return f'{low:g}' if low == high else f'{low:g} to {high:g}'
