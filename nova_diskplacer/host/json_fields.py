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

"""Dataclasses of what was read as JSON."""

import collections.abc
import contextlib
import dataclasses
import math
import types
import typing


def typed(type_: type, value: object) -> typing.Any:
    """Return a dataclass whose fields are those of an object of JSON.

    :raises ValueError: it lacks a field, has another one, or one is of another
        type.
    """
    return _typed(_exact, type_, value)


def typed_of_any_release(type_: type, value: object) -> typing.Any:
    """Return a dataclass whose fields another release may have written.

    Fields that are unknown here are left out, and those that it lacks have
    their defaults.

    :raises ValueError: it lacks a field without a default, or one is of
        another type.
    """
    return _typed(_known, type_, value)


#: Returns those fields of an object of JSON that a dataclass gets.
_Choose = collections.abc.Callable[
    [str, typing.Any, collections.abc.Mapping[str, object]],
    collections.abc.Mapping[str, object],
]


def _typed(choose: _Choose, type_: type, value: object) -> typing.Any:
    if not isinstance(value, dict):
        raise ValueError('not an object of JSON')
    return _fields(choose, '', type_, value)


def _value(
    choose: _Choose, name: str, kind: typing.Any, value: typing.Any
) -> typing.Any:
    """Return a value of JSON as a type of a field.

    :raises ValueError: it is of another type.
    """
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return value
    if origin is types.UnionType:
        # a type or None
        return None if value is None else _value(choose, name, inner[0], value)
    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        return _fields(choose, name, kind, value)
    if origin is tuple and isinstance(value, list):
        return tuple(_value(choose, name, inner[0], item) for item in value)
    if origin is dict and isinstance(value, dict):
        return {
            key: _value(choose, f'{name}.{key}', inner[1], item)
            for key, item in value.items()
        }
    if kind is float and type(value) in (int, float) and _is_finite(value):
        return float(value)
    if type(value) is not kind or kind is float:
        expected = getattr(kind, '__name__', kind)
        raise ValueError(f'{name}={value!r} is no {expected}')
    return value


def _is_finite(value: float) -> bool:
    # JSON has integers that no float can hold
    with contextlib.suppress(OverflowError):
        return math.isfinite(value)
    return False


def _fields(
    choose: _Choose,
    name: str,
    kind: typing.Any,
    value: collections.abc.Mapping[str, object],
) -> typing.Any:
    hints = typing.get_type_hints(kind)
    prefix = f'{name}.' if name else ''
    return kind(
        **{
            key: _value(choose, f'{prefix}{key}', hints[key], item)
            for key, item in choose(name, kind, value).items()
        }
    )


def _exact(
    name: str, kind: typing.Any, value: collections.abc.Mapping[str, object]
) -> collections.abc.Mapping[str, object]:
    names = {field.name for field in dataclasses.fields(kind)}
    if value.keys() != names:
        _refuse(name, 'lacks or does not have', value.keys() ^ names)
    return value


def _known(
    name: str, kind: typing.Any, value: collections.abc.Mapping[str, object]
) -> collections.abc.Mapping[str, object]:
    fields = dataclasses.fields(kind)
    needed = {
        field.name
        for field in fields
        if field.default is field.default_factory is dataclasses.MISSING
    }
    if missing := needed - value.keys():
        _refuse(name, 'lacks', missing)
    return {
        field.name: value[field.name]
        for field in fields
        if field.name in value
    }


def _refuse(
    name: str, verb: str, fields: collections.abc.Iterable[str]
) -> typing.NoReturn:
    raise ValueError(f'{name or "it"} {verb}: {", ".join(sorted(fields))}')
