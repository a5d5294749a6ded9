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
import typing

import yaml
from jsonschema import exceptions

from nova_diskplacer import exception


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice; plain YAML takes the last."""

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
        return super().construct_mapping(node, deep)


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
        allowed = error.schema['properties']
        unknown = ', '.join(
            str(key) for key in error.instance if key not in allowed
        )
        return f'{prefix}{unknown} is not one of: {", ".join(allowed)}'
    if error.validator == 'enum':
        allowed = ', '.join(str(value) for value in error.validator_value)
        return f'{where}={error.instance} is not one of: {allowed}'
    return f'{prefix}{error.message}'
