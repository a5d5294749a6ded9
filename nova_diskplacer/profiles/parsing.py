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

"""YAML files that a JSON schema describes, and what is wrong with them."""

import collections.abc
import pathlib
import re
import typing

import yaml
from jsonschema import exceptions

from nova_diskplacer import exception


class _Loader(yaml.SafeLoader):
    """Refuses keys that are given twice, or that are no text.

    Plain YAML takes the last of the former, and numbers and truth values for
    the latter.
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
                    None, None, f'key {key} is no text', node.start_mark
                )
        return mapping


def parse(path: pathlib.Path) -> typing.Any:
    """Return what a YAML file says.

    :raises ProfileError: it cannot be read, or is no YAML.
    """
    try:
        text = path.read_text(encoding='utf-8')
        return yaml.load(text, _Loader)  # noqa: S506, it is a SafeLoader
    except OSError as error:
        raise exception.ProfileError(f'{path}: {error.strerror}') from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise exception.ProfileError(f'{path}: {error}') from error


def problem(data: typing.Any, validator: typing.Any) -> str | None:
    """Return what a schema finds wrong with data, None if nothing.

    It names the key, the value and what is allowed.
    """
    error = exceptions.best_match(validator.iter_errors(data))
    if error is None:
        return None
    where = '.'.join(str(step) for step in error.absolute_path)
    prefix = f'{where}: ' if where else ''
    if error.validator == 'additionalProperties':
        return f'{prefix}{_unknown_keys(error)}'
    if error.validator == 'enum':
        allowed = ', '.join(str(value) for value in error.validator_value)
        return f'{where}={error.instance} is not one of: {allowed}'
    return f'{prefix}{error.message}'


def _unknown_keys(error: typing.Any) -> str:
    known = error.schema['properties']
    patterns = error.schema.get('patternProperties', {})
    unknown = ', '.join(
        key
        for key in error.instance
        if key not in known
        and not any(re.search(pattern, key) for pattern in patterns)
    )
    allowed = ', '.join(
        [*known, *(f'or like {pattern}' for pattern in patterns)]
    )
    return f'{unknown} is not one of: {allowed}'
