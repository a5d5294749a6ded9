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

"""The vdisks that a request spec asks for."""

import functools
import typing

from nova.scheduler import utils

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.profiles import catalogue

_PROFILE = flavor.NAMESPACE + flavor.PROFILE


def from_spec(spec: typing.Any) -> flavor.VDiskRequest | None:
    """Return the vdisks that a request spec asks for, None for none.

    :raises ValueError: the flavor's extra specs are not valid.
    :raises ProfileError: the catalogue of profiles cannot be read.
    """
    if 'extra_specs' not in spec.flavor:
        return None
    extra_specs = spec.flavor.extra_specs
    profiles = _profiles() if _PROFILE in extra_specs else flavor.NO_PROFILES
    request = flavor.parse(extra_specs, profiles)
    return None if utils.request_is_rebuild(spec) else request


def has_extra_specs(spec: typing.Any) -> bool:
    """Return whether the flavor has ``diskplacer:`` extra specs."""
    return 'extra_specs' in spec.flavor and any(
        name.startswith(flavor.NAMESPACE) for name in spec.flavor.extra_specs
    )


@functools.cache
def _profiles() -> catalogue.Catalogue:
    conf.register_opts(conf.CONF)
    return catalogue.load(conf.CONF.diskplacer.profile_dirs)


def reset() -> None:
    """Forget the profiles of this process."""
    _profiles.cache_clear()
