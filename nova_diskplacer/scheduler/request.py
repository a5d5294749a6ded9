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

"""The vdisks that a request spec asks for, and what the filters share.

Contract with Nova: the state is an attribute of the request spec that is no
field of it. Nova passes the same request spec to all filters and weighers of
a request, and neither stores nor sends what is no field. For a multi-create
Nova filters once for each server and sets ``instance_uuid`` before.
"""

import dataclasses
import functools
import typing

from nova_diskplacer import conf
from nova_diskplacer import flavor
from nova_diskplacer.profiles import catalogue

if typing.TYPE_CHECKING:
    from nova_diskplacer.mapping import base
    from nova_diskplacer.scheduler import attached_volumes
    from nova_diskplacer.scheduler import candidates
    from nova_diskplacer.scheduler import plan

_PROFILE = flavor.NAMESPACE + flavor.PROFILE

#: Name of the attribute of a request spec.
ATTRIBUTE = 'diskplacer_state'


@dataclasses.dataclass
class RequestState:
    """Results of the filters for one server so far; None is not known yet.

    ``choice`` is a plan, the rows of hosts in the cache, and the choice there.
    """

    server_id: str
    volumes: 'list[attached_volumes.AttachedVolume] | None' = None
    choice: 'tuple[plan.DiskPlan, base.Ints, plan.Choice] | None' = None
    last_run: 'candidates.FilterRun | None' = None


def state_of(spec: typing.Any) -> RequestState:
    """Return the state of the server that a request spec is for now."""
    state: RequestState | None = getattr(spec, ATTRIBUTE, None)
    if state is None or state.server_id != spec.instance_uuid:
        state = RequestState(spec.instance_uuid)
        setattr(spec, ATTRIBUTE, state)
    return state


def from_spec(spec: typing.Any) -> flavor.VDiskRequest | None:
    """Return the vdisks that a request spec asks for, None for none.

    :raises ValueError: the flavor's extra specs are not valid.
    :raises ProfileError: the catalogue of profiles cannot be read.
    """
    if 'extra_specs' not in spec.flavor:
        return None
    extra_specs = spec.flavor.extra_specs
    profiles = _profiles() if _PROFILE in extra_specs else flavor.NO_PROFILES
    return flavor.parse(extra_specs, profiles)


def has_extra_specs(spec: typing.Any) -> bool:
    """Return whether the flavor has ``diskplacer:`` extra specs."""
    return 'extra_specs' in spec.flavor and any(
        name.startswith(flavor.NAMESPACE) for name in spec.flavor.extra_specs
    )


@functools.cache
def _profiles() -> catalogue.Catalogue:
    conf.register_opts(conf.CONF)
    return catalogue.load(conf.CONF.diskplacer.profile_dirs)
