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

"""State that the filters share for one server of a request.

Contract with Nova: the state is an attribute of the request spec that is no
field of it. Nova passes the same request spec to all filters and weighers of
a request, and neither stores nor sends what is no field. For a multi-create
Nova filters once for each server and sets ``instance_uuid`` before.
"""

import dataclasses
import typing

if typing.TYPE_CHECKING:
    from nova_diskplacer.scheduler import attached_volumes
    from nova_diskplacer.scheduler import filter_run
    from nova_diskplacer.scheduler import server_plan

#: Name of the attribute of a request spec.
ATTRIBUTE = 'diskplacer_state'


@dataclasses.dataclass
class RequestState:
    """Results of the filters so far; None is not known yet."""

    server_id: str
    volumes: 'list[attached_volumes.AttachedVolume] | None' = None
    plan: 'server_plan.ServerPlan | None' = None
    last_run: 'filter_run.FilterRun | None' = None


def of(spec: typing.Any) -> RequestState:
    """Return the state of the server that a request spec is for now."""
    state: RequestState | None = getattr(spec, ATTRIBUTE, None)
    if state is None or state.server_id != spec.instance_uuid:
        state = RequestState(spec.instance_uuid)
        setattr(spec, ATTRIBUTE, state)
    return state
