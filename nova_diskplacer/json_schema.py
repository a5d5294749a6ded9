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

"""Descriptions of errors that a JSON schema finds."""

import re
import typing

from jsonschema import exceptions


def problem(data: typing.Any, validator: typing.Any) -> str | None:
    """Return a description of an error in data, None if they are valid.

    It has the key, the value and the allowed values.

    :param validator: a validator of ``jsonschema``.
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
    properties = error.schema['properties']
    patterns = error.schema.get('patternProperties', {})
    unknown = ', '.join(
        key
        for key in error.instance
        if key not in properties
        and not any(re.search(pattern, key) for pattern in patterns)
    )
    allowed = ', '.join(
        [*properties, *(f'or like {pattern}' for pattern in patterns)]
    )
    return f'{unknown} is not one of: {allowed}'
