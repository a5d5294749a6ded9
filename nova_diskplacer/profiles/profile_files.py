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

"""Files of profiles: YAML that ``schema.yaml`` describes."""

import collections.abc
import dataclasses
import functools
import pathlib
import typing

import jsonschema
import yaml

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import json_schema
from nova_diskplacer.profiles import definitions

#: The JSON schema of profiles.
SCHEMA = pathlib.Path(__file__).parent / 'schema.yaml'


def read(path: pathlib.Path) -> definitions.Profile:
    """Return the profile that a file holds.

    :raises ProfileError: it cannot be read or is not a profile; names the
        file, the key, the value and what is allowed.
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


def _profile(data: dict[str, typing.Any]) -> definitions.Profile:
    fields = {
        **data,
        'specs': {k: str(v) for k, v in data.get('specs', {}).items()},
        'hw': {k: str(v) for k, v in data.get('hw', {}).items()},
        'queue': {
            medium: definitions.Queue(**_tuples(queue))
            for medium, queue in data.get('queue', {}).items()
        },
        'shape': definitions.Shape(
            **{
                name: definitions.Limits(**_tuples(limits))
                for name, limits in data.get('shape', {}).items()
            }
        ),
        'guest': definitions.Guest(**_tuples(data.get('guest', {}))),
    }
    return definitions.Profile(**_tuples(fields))


def _tuples(fields: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in fields.items()
    }


def dump(profile: definitions.Profile) -> str:
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
            medium: definitions.set_fields(queue)
            for medium, queue in profile.queue.items()
        },
        'shape': {
            name: definitions.set_fields(limits)
            for name, limits in definitions.set_fields(profile.shape).items()
        },
        'guest': definitions.set_fields(profile.guest),
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


def _check_specs(specs: definitions.Specs) -> None:
    allowed = [
        flavor.NAMESPACE + name
        for name in flavor.SPECS
        if name not in (flavor.PROFILE, flavor.ON_HOST_LOSS)
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


def _check_limits(shape: definitions.Shape) -> None:
    for name, limits in definitions.set_fields(shape).items():
        low, high = limits.recommended or (0, 0)
        ends = (limits.minimum, low or None, high or None, limits.maximum)
        order = [end for end in ends if end is not None]
        if order != sorted(order):
            raise ValueError(
                f'shape.{name}: minimum, recommended from and to, and maximum '
                f'must be in rising order, not {", ".join(map(str, order))}'
            )


def _check_sources(profile: definitions.Profile) -> None:
    paths = definitions.settings(profile)
    for path in profile.sources:
        if path not in paths:
            raise ValueError(
                f'sources: {path} is not one of the settings of this '
                f'profile: {", ".join(paths)}'
            )
