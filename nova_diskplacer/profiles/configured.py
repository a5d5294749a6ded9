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

"""The profiles of this host's configuration, and what flavors ask by them."""

import collections.abc
import dataclasses
import functools

from oslo_config import cfg

from nova_diskplacer import flavor
from nova_diskplacer.conf import api
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.profiles import catalogue

_PROFILE = flavor.NAMESPACE + flavor.PROFILE


@functools.cache
def profiles() -> catalogue.Catalogue:
    """Return the catalogue of ``[diskplacer] profile_dirs``, read once.

    :raises ProfileError: it cannot be read.
    """
    group = diskplacer.GROUP
    cfg.CONF.register_opt(diskplacer.PROFILE_DIRS, group=group)
    return catalogue.load(cfg.CONF[group.name].profile_dirs)


def parse(
    extra_specs: collections.abc.Mapping[str, str],
) -> flavor.VDiskRequest | None:
    """Return the vdisks that a flavor's extra specs ask for, None for none.

    ``[diskplacer_api] volume_type`` is their type if the flavor has none.

    :raises ValueError: the flavor's extra specs are not valid.
    :raises ProfileError: the catalogue of profiles cannot be read.
    """
    request = _parse(frozenset(extra_specs.items()))
    if request is None or request.volume_type:
        return request
    volume_type = _api_options().volume_type
    if not volume_type:
        return request
    return dataclasses.replace(request, volume_type=volume_type)


@functools.cache
def _api_options() -> cfg.ConfigOpts.GroupAttr:
    """Return the options of ``[diskplacer_api]``, registered once."""
    cfg.CONF.register_opts(api.OPTS, group=api.GROUP)
    return cfg.CONF[api.GROUP.name]


@functools.lru_cache(maxsize=1024)
def _parse(
    extra_specs: frozenset[tuple[str, str]],
) -> flavor.VDiskRequest | None:
    """Return the vdisks of a flavor; those of the last flavors are kept.

    A cloud has few flavors for its many requests.
    """
    specs = dict(extra_specs)
    known_profiles = profiles() if _PROFILE in specs else flavor.NO_PROFILES
    return flavor.parse(specs, known_profiles)
