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

"""Settings, and a host with elastic vdisks that tests observe."""

import dataclasses

import hypothesis

from nova_diskplacer.disks.location import Location
from nova_diskplacer.elastic import inputs
from nova_diskplacer.elastic import observations
from nova_diskplacer.elastic import paths
from nova_diskplacer.elastic import policy
from nova_diskplacer.elastic import settings as settings_
from tests import configured

#: However slow the machine is at the moment.
EXAMPLES = hypothesis.settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)

#: Three doublings lead from 60 to 480 seconds.
QUICK = settings_.Settings(
    interval=10.0,
    widen_pressure=0.8,
    widen_share=0.5,
    widen_after=30.0,
    widen_factor=2,
    narrow_pressure=0.3,
    narrow_after=60.0,
    narrow_after_max=480.0,
    min_interval=20.0,
    target_pressure=0.5,
    copy_share=0.1,
    max_move_time=1000.0,
)


def changed(**values):
    """Return the settings with other values."""
    return dataclasses.replace(QUICK, **values)


def defaults(**overrides):
    """Return the settings of a configuration."""
    options = configured.Options()
    with options:
        for name, value in overrides.items():
            options.conf.set_override(name, value, 'diskplacer_elastic')
        return settings_.from_conf(options.conf)


def disk(**values):
    fields = {'medium': 'ssd', 'mbps': 1000.0, 'free_gb': 100}
    return inputs.Disk(**{**fields, **values})


def vdisk(*disks, minimum=1, maximum=4, leg_gb=2):
    """Return a vdisk that was widened from its first disks to all of them."""
    location = Location.narrowest(disks[:minimum], maximum)
    path = paths.widened(location, disks[minimum:])
    return inputs.ElasticVDisk(leg_gb, minimum, path[-1])


class Host:
    """A host whose vdisks are observed, and moved as decided.

    ``parts`` are by vdisk: what each causes on the fullest of its disks; on
    others it is by their legs. ``others`` are by disk: what others cause.
    """

    def __init__(self, vdisks, disks='abcdef', settings=QUICK):
        self.settings = settings
        self.vdisks = dict(vdisks)
        self.disks = {uuid: disk() for uuid in disks}
        self.overrides = inputs.Overrides()
        self.state = policy.State()
        self.now = 1000.0
        self.parts, self.others = {}, {}
        self.decision = None
        self.busy = False

    @property
    def host(self):
        return inputs.Host(self.vdisks, self.disks)

    def observe(self, **parts):
        """Observe the host for an interval, and return the decision."""
        self.parts.update(parts)
        self.now += self.settings.interval
        found = {
            (uuid, where): self.parts.get(uuid, 0.0)
            * one.location.count(where)
            / paths.fullest(one.location)
            for uuid, one in self.vdisks.items()
            for where in one.disks
        }
        used = {
            where: self.others.get(where, 0.0)
            + sum(part for pair, part in found.items() if pair[1] == where)
            for where in self.disks
        }
        self.decision = policy.decide(
            self.state,
            observations.Observation(
                self.now, self.settings.interval, used, found
            ),
            self.host,
            self.settings,
            self.overrides,
            self.busy,
        )
        self.state = self.decision.state
        return self.decision

    def wait(self, seconds, **parts):
        """Observe for a time or until a move; return the move, or None."""
        end = self.now + seconds
        while self.now < end:
            move = self.observe(**parts).move
            if move:
                return move
        return None

    def finish(self, refusal='', steps=None):
        """End the move under way after so many steps, by default all."""
        move = self.state.move
        if steps is None:
            steps = 0 if refusal else len(move.path) - 1
        if move.vdisk in self.vdisks:
            self.vdisks[move.vdisk] = dataclasses.replace(
                self.vdisks[move.vdisk], location=move.path[steps]
            )
        self.state = policy.finish(
            self.state, refusal, self.now, self.settings
        )

    def why(self, uuid='v'):
        """Return the reason of the last verdict."""
        return self.decision.verdicts[uuid].why
