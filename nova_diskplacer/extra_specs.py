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

"""Entry point of ``nova.api.extra_spec_validators``.

Nova's API rejects unknown ``diskplacer:`` keys and bad values with a 400 that
names the allowed ones. It checks only the form of a profile's name: profiles
are files of the services that use them, and may change while the API runs.
"""

from nova.api.validation.extra_specs import base

from nova_diskplacer import flavor


def register() -> list[base.ExtraSpecValidator]:
    """Return the validators of the ``diskplacer:`` namespace."""
    return [
        base.ExtraSpecValidator(
            name=flavor.NAMESPACE + name,
            description=spec.description,
            value=_value(spec),
        )
        for name, spec in flavor.SPECS.items()
    ]


def _value(spec: flavor.Spec) -> dict[str, object]:
    if spec.choices:
        return {'type': str, 'enum': list(spec.choices)}
    if spec.pattern:
        return {'type': str, 'pattern': spec.pattern}
    return {'type': int, 'min': spec.minimum, 'max': spec.maximum}
