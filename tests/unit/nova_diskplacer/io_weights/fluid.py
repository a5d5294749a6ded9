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

"""A disk whose throughput flows to those who want it, by their weights."""

import dataclasses

import numpy

from nova_diskplacer.io_weights import policy
from nova_diskplacer.io_weights import tiers
from nova_diskplacer.monitor import types
from tests.unit.nova_diskplacer.monitor import samples

DISK = 'disk'


@dataclasses.dataclass(frozen=True)
class Task:
    """Reads ``size`` bytes from ``start`` on, as fast as it may."""

    start: float
    size: float


def run(tasks, rate, rules=None, groups=None, ahead=0):
    """Return how long each task takes, in seconds.

    Accounts hold what tasks have asked for, as the kernel counts it.

    :param rate: of the disk in bytes/s; all of it flows while anybody reads.
    :param rules: how weights are decided at the end of each interval, None if
        all are equal for ever.
    :param groups: the group of each task, by default one of its own.
    :param ahead: bytes that a task asks for before it gets them.
    """
    names = [str(number) for number in range(len(tasks))]
    pairs = types.Pairs((name, DISK) for name in names)
    parties = {
        name: tiers.ConsumerPolicy(group, rules.lowest, rules.classes, False)
        for name, group in zip(names, groups or names, strict=True)
        if rules
    }
    interval = rules.interval if rules else 1.0
    generator = policy.SharePolicy(rules) if rules else None
    left = [float(task.size) for task in tasks]
    ends = [0.0] * len(tasks)
    weights = [100] * len(tasks)
    asked = numpy.zeros(len(tasks))
    now = 0.0
    while any(left):
        end = now + interval
        while now < end and any(left):
            now = _flow(tasks, rate, weights, left, ends, now, end)
        if generator:
            before, asked = asked, _asked(tasks, left, end, ahead)
            done = asked - before
            sample = samples.make_sample(
                pairs, seconds=interval, idle=done == 0
            )
            decided = generator.compute(sample, done, parties, ())
            weights = policy.weights(decided.shares).tolist()
        now = end
    return [end - task.start for end, task in zip(ends, tasks, strict=True)]


def _asked(tasks, left, now, ahead):
    """Return the bytes that each task has asked for."""
    return numpy.array(
        [
            min(task.size, task.size - rest + ahead) * (task.start < now)
            for task, rest in zip(tasks, left, strict=True)
        ]
    )


def _flow(tasks, rate, weights, left, ends, now, until):
    """Go on until a task begins or ends; returns the time of that."""
    ready = [n for n, t in enumerate(tasks) if t.start <= now and left[n]]
    total = sum(weights[n] for n in ready)
    rates = {n: rate * weights[n] / total for n in ready}
    until = min(
        [until]
        + [task.start for task in tasks if task.start > now]
        + [now + left[n] / rates[n] for n in ready]
    )
    for n in ready:
        part = min(rates[n] * (until - now), left[n])
        # what is left of a byte is nothing
        left[n] = left[n] - part if left[n] - part > 1e-3 else 0.0
        if not left[n]:
            ends[n] = until
    return until
