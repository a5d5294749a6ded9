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

"""Strict reading of YAML files."""

import collections.abc
import pathlib
import typing

import yaml

from nova_diskplacer import exception


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


def parse(path: pathlib.Path) -> typing.Any:
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
