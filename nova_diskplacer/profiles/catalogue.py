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

"""The catalogue of I/O profiles: those shipped, and the operator's own.

A profile is a YAML file that ``schema.yaml`` describes. The shipped ones lie
beside this module.
"""

import collections.abc
import dataclasses
import functools
import hashlib
import json
import pathlib
import typing
from importlib import metadata

import jsonschema
import yaml

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import json_schema

_HERE = pathlib.Path(__file__).parent

#: The JSON schema of profiles.
SCHEMA = _HERE / 'schema.yaml'

#: The papers that the shipped profiles rest on, as their sources name them.
PAPERS = {
    'P0': 'Ha, Venzano, Brown, Michiardi: On the Impact of Virtualization on '
    'the I/O Performance of Analytic Workloads',
    'P1': 'Lim, Horey, Yao, Begoli, Cao: Performance implications from sizing '
    "a VM on multi-core systems: A Data analytic application's view",
    'P2': 'Nicolae: Understanding Vertical Scalability of I/O Virtualization '
    'for MapReduce Workloads: Challenges and Opportunities (Euro-Par 2013 '
    'Workshops, doi 10.1007/978-3-642-54420-0_1)',
    'P3': 'Ha, Venzano, Brown, Michiardi: The Impacts of Virtualization on '
    "Big Data Application's Workload (a draft by the authors of P0, with "
    'other figures)',
    'P4': 'Malensek, Pallickara, Pallickara: Alleviation of Disk I/O '
    'Contention in Virtualized Settings for Data-Intensive Computing',
}

Specs = collections.abc.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Queue:
    """Settings of the request queue of a disk of one medium.

    ``schedulers`` is in order of preference: the first that the kernel has is
    taken; empty, or None for the others, leaves the queue as it is. The units
    are in the names; ``wbt_lat_usec`` 0 turns writeback throttling off.
    """

    schedulers: tuple[str, ...] = ()
    read_ahead_kb: int | None = None
    nr_requests: int | None = None
    wbt_lat_usec: int | None = None
    nomerges: int | None = None
    rq_affinity: int | None = None
    max_sectors_kb: int | None = None


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a figure of a flavor.

    The papers advise against figures outside ``minimum`` to ``maximum``;
    within ``recommended``, both ends included, results were best. They say
    nothing of figures outside ``measured``.
    """

    minimum: float | None = None
    maximum: float | None = None
    recommended: tuple[float, float] | None = None
    measured: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Shape:
    """Limits on a flavor; those on ``ram_gb`` are in GiB."""

    vcpus: Limits = Limits()
    ram_gb: Limits = Limits()
    vdisks: Limits = Limits()


@dataclasses.dataclass(frozen=True)
class Guest:
    """Advice on what the server's own system should do with its vdisks."""

    filesystem: str | None = None
    mount_options: tuple[str, ...] = ()
    scheduler: str | None = None
    read_ahead_kb: int | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Profile:
    """A profile, as in its file.

    ``specs`` are the defaults of ``diskplacer:`` extra specs that a flavor
    leaves unset; ``hw`` are Nova's own extra specs, which ``profile apply``
    sets. ``queue`` is by medium. ``cache_mode`` None: any will do. Where the
    profiles of one disk's servers conflict, the higher ``priority`` wins,
    then the name that is first in the alphabet. ``weight`` is the highest
    class of I/O weight that its servers may have, in per cent. ``sources``
    says of each setting, by its dotted path, what it rests on.
    """

    name: str
    title: str
    description: str
    aliases: tuple[str, ...] = ()
    specs: Specs = dataclasses.field(default_factory=dict)
    hw: Specs = dataclasses.field(default_factory=dict)
    queue: collections.abc.Mapping[str, Queue] = dataclasses.field(
        default_factory=dict
    )
    cache_mode: str | None = None
    priority: int = 0
    weight: int = 100
    shape: Shape = Shape()
    guest: Guest = Guest()
    sources: Specs = dataclasses.field(default_factory=dict)


class Catalogue(collections.abc.Mapping[str, Profile]):
    """Profiles by name; an alias finds its profile too, but is not listed.

    :raises ProfileError: two profiles have the same alias.
    """

    def __init__(self, profiles: collections.abc.Iterable[Profile]) -> None:
        self._profiles = {profile.name: profile for profile in profiles}
        self._aliases: dict[str, str] = {}
        for profile in self._profiles.values():
            for alias in profile.aliases:
                other = self._aliases.setdefault(alias, profile.name)
                if other != profile.name:
                    raise exception.ProfileError(
                        f'profile {profile.name}: aliases: {alias} is an '
                        f'alias of {other} already; aliases must be unique'
                    )

    def __getitem__(self, name: str) -> Profile:
        return self._profiles.get(name) or self._profiles[self._aliases[name]]

    def __iter__(self) -> collections.abc.Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def find(self, name: str) -> Profile:
        """Return the profile of that name or alias.

        :raises ProfileError: there is none; names those that there are.
        """
        if name not in self:
            names = ', '.join(
                f'{profile.name} ({", ".join(profile.aliases)})'
                if profile.aliases
                else profile.name
                for profile in self.values()
            )
            raise exception.ProfileError(
                f'no profile {name}; there are: {names}'
            )
        return self[name]


def load(directories: collections.abc.Iterable[str] = ()) -> Catalogue:
    """Return the shipped profiles and those of the directories.

    Directories are read in their order, the files of each by name; a profile
    replaces the one of the same name read before it. A directory that does
    not exist holds none.

    :raises ProfileError: a file cannot be read or is not a profile; names the
        file, the key, the value and what is allowed.
    """
    profiles = {}
    for directory in (_HERE, *map(pathlib.Path, directories)):
        for path in _files(directory):
            profile = read(path)
            profiles[profile.name] = profile
    return Catalogue(profiles.values())


def digest(profiles: collections.abc.Mapping[str, Profile]) -> str:
    """Return a digest that is the same for the same profiles."""
    fields = {
        name: dataclasses.asdict(profile) for name, profile in profiles.items()
    }
    text = json.dumps(fields, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def software(
    directories: collections.abc.Iterable[str],
) -> dict[str, str]:
    """Return the ``release`` of this package and its ``profiles``' digest.

    :raises ProfileError: as ``load``.
    """
    return {
        'release': metadata.version('nova-diskplacer'),
        'profiles': digest(load(directories)),
    }


def _files(directory: pathlib.Path) -> list[pathlib.Path]:
    try:
        paths = sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f'{directory}: {error.strerror}'
        raise exception.ProfileError(text) from error
    return [p for p in paths if p.suffix == '.yaml' and p != SCHEMA]


def read(path: pathlib.Path) -> Profile:
    """Return the profile that a file holds.

    :raises ProfileError: as ``load``.
    """
    data = _parse(path)
    problem = json_schema.problem(data, _validator())
    if problem:
        raise exception.ProfileError(f'{path}: {problem}')
    profile = _profile(data)
    try:
        _check_specs(profile.specs)
        _check_limits(profile.shape)
        _check_sources(profile)
    except ValueError as error:
        raise exception.ProfileError(f'{path}: {error}') from error
    return profile


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, and keys that are not strings.

    Plain YAML takes the last one of duplicate keys, and accepts numbers and
    truth values as keys.
    """

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[collections.abc.Hashable, typing.Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f'{key.value} is given twice', key.start_mark
                )
            seen.add(key.value)
        mapping = super().construct_mapping(node, deep)
        for key in mapping:
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f'key {key} is not a string', node.start_mark
                )
        return mapping


def _parse(path: pathlib.Path) -> typing.Any:
    """Return the contents of a YAML file.

    :raises ProfileError: it cannot be read, or is not valid YAML.
    """
    try:
        text = path.read_text(encoding='utf-8')
        return yaml.load(text, _Loader)  # noqa: S506, it is a SafeLoader
    except OSError as error:
        raise exception.ProfileError(f'{path}: {error.strerror}') from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise exception.ProfileError(f'{path}: {error}') from error


@functools.cache
def _validator() -> typing.Any:
    return jsonschema.Draft202012Validator(_parse(SCHEMA))


def _profile(data: dict[str, typing.Any]) -> Profile:
    fields = {
        **data,
        'specs': {k: str(v) for k, v in data.get('specs', {}).items()},
        'hw': {k: str(v) for k, v in data.get('hw', {}).items()},
        'queue': {
            medium: Queue(**_tuples(queue))
            for medium, queue in data.get('queue', {}).items()
        },
        'shape': Shape(
            **{
                name: Limits(**_tuples(limits))
                for name, limits in data.get('shape', {}).items()
            }
        ),
        'guest': Guest(**_tuples(data.get('guest', {}))),
    }
    return Profile(**_tuples(fields))


def _tuples(fields: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in fields.items()
    }


def dump(profile: Profile) -> str:
    """Return a profile as the text of a file, which ``read`` reads.

    Extra specs whose values are digits become numbers.
    """
    data = {
        field.name: getattr(profile, field.name)
        for field in dataclasses.fields(profile)
        if getattr(profile, field.name) not in (None, (), {})
    }
    data |= {
        key: {
            name: int(value) if value.isdecimal() else value
            for name, value in getattr(profile, key).items()
        }
        for key in ('specs', 'hw')
        if key in data
    }
    data |= {
        'queue': {
            medium: _set_fields(queue)
            for medium, queue in profile.queue.items()
        },
        'shape': {
            name: _set_fields(limits)
            for name, limits in _set_fields(profile.shape).items()
        },
        'guest': _set_fields(profile.guest),
    }
    return yaml.safe_dump(
        _lists(data), sort_keys=False, allow_unicode=True, width=79
    )


def _lists(value: typing.Any) -> typing.Any:
    """Return what YAML has for tuples and mappings."""
    if isinstance(value, collections.abc.Mapping):
        return {key: _lists(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    return value


def _check_specs(specs: Specs) -> None:
    allowed = [
        flavor.NAMESPACE + name
        for name in flavor.SPECS
        if name != flavor.PROFILE
    ]
    for key, value in specs.items():
        if key not in allowed:
            raise ValueError(
                f'specs: the key of {key}={value} is not one of: '
                f'{", ".join(allowed)}'
            )
        name = key.removeprefix(flavor.NAMESPACE)
        try:
            flavor.SPECS[name].value(name, value)
        except ValueError as error:
            raise ValueError(f'specs: {error}') from error


def _check_limits(shape: Shape) -> None:
    for name, limits in _set_fields(shape).items():
        low, high = limits.recommended or (0, 0)
        ends = (limits.minimum, low or None, high or None, limits.maximum)
        order = [end for end in ends if end is not None]
        if order != sorted(order):
            raise ValueError(
                f'shape.{name}: minimum, recommended from and to, and maximum '
                f'must be in rising order, not {", ".join(map(str, order))}'
            )


def _check_sources(profile: Profile) -> None:
    paths = settings(profile)
    for path in profile.sources:
        if path not in paths:
            raise ValueError(
                f'sources: {path} is not one of the settings of this '
                f'profile: {", ".join(paths)}'
            )


def settings(profile: Profile) -> dict[str, typing.Any]:
    """Return what a profile sets, by its dotted path."""
    values = {
        f'{key}.{name}': value
        for key in ('specs', 'hw')
        for name, value in getattr(profile, key).items()
    }
    groups = {
        f'queue.{medium}': queue for medium, queue in profile.queue.items()
    }
    for path, group in (*groups.items(), ('guest', profile.guest)):
        values |= {
            f'{path}.{name}': v for name, v in _set_fields(group).items()
        }
    if profile.cache_mode:
        values['cache_mode'] = profile.cache_mode
    values |= {'priority': profile.priority, 'weight': profile.weight}
    for name, limits in _set_fields(profile.shape).items():
        values |= {
            f'shape.{name}.{k}': v for k, v in _set_fields(limits).items()
        }
    return values


def _set_fields(group: typing.Any) -> dict[str, typing.Any]:
    """Return the fields of a dataclass that are not left out."""
    return {
        field.name: getattr(group, field.name)
        for field in dataclasses.fields(group)
        if getattr(group, field.name) not in (None, (), Limits())
    }
