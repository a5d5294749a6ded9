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

"""The settings of a profile."""

import collections.abc
import dataclasses
import typing

Specs = collections.abc.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Queue:
    """Settings of the request queue of a disk of one medium.

    ``schedulers`` is in order of preference, see ``queue_policy``; empty, or
    None for the others, leaves the queue as it is. The units are in the names;
    ``wbt_lat_usec`` 0 turns writeback throttling off.
    """

    schedulers: tuple[str, ...] = ()
    read_ahead_kb: int | None = None
    nr_requests: int | None = None
    wbt_lat_usec: int | None = None
    nomerges: int | None = None
    rq_affinity: int | None = None
    max_sectors_kb: int | None = None


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a figure of a flavor.

    The papers advise against figures outside ``minimum`` to ``maximum``;
    within ``recommended``, both ends included, results were best. They say
    nothing of figures outside ``measured``.
    """

    minimum: float | None = None
    maximum: float | None = None
    recommended: tuple[float, float] | None = None
    measured: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Shape:
    """Limits on a flavor; those on ``ram_gb`` are in GiB."""

    vcpus: Limits = Limits()
    ram_gb: Limits = Limits()
    vdisks: Limits = Limits()


@dataclasses.dataclass(frozen=True)
class Guest:
    """Advice on what the server's own system should do with its vdisks."""

    filesystem: str | None = None
    mount_options: tuple[str, ...] = ()
    scheduler: str | None = None
    read_ahead_kb: int | None = None
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Profile:
    """A profile, as in its file.

    ``specs`` are the defaults of ``diskplacer:`` extra specs that a flavor
    leaves unset; ``hw`` are Nova's own extra specs, which ``profile apply``
    sets. ``queue`` is by medium. ``cache_mode`` None: any will do. Where the
    profiles of one disk's servers conflict, the higher ``priority`` wins,
    then the name that is first in the alphabet. ``weight`` is the highest
    class of I/O weight that its servers may have, in per cent. ``sources``
    says of each setting, by its dotted path, what it rests on.
    """

    name: str
    title: str
    description: str
    aliases: tuple[str, ...] = ()
    specs: Specs = dataclasses.field(default_factory=dict)
    hw: Specs = dataclasses.field(default_factory=dict)
    queue: collections.abc.Mapping[str, Queue] = dataclasses.field(
        default_factory=dict
    )
    cache_mode: str | None = None
    priority: int = 0
    weight: int = 100
    shape: Shape = Shape()
    guest: Guest = Guest()
    sources: Specs = dataclasses.field(default_factory=dict)


def settings(profile: Profile) -> dict[str, typing.Any]:
    """Return what a profile sets, by its dotted path."""
    values = {
        f'{key}.{name}': value
        for key in ('specs', 'hw')
        for name, value in getattr(profile, key).items()
    }
    groups = {
        f'queue.{medium}': queue for medium, queue in profile.queue.items()
    }
    for path, group in (*groups.items(), ('guest', profile.guest)):
        values |= {
            f'{path}.{name}': v for name, v in set_fields(group).items()
        }
    if profile.cache_mode:
        values['cache_mode'] = profile.cache_mode
    values |= {'priority': profile.priority, 'weight': profile.weight}
    for name, limits in set_fields(profile.shape).items():
        values |= {
            f'shape.{name}.{k}': v for k, v in set_fields(limits).items()
        }
    return values


def set_fields(group: typing.Any) -> dict[str, typing.Any]:
    """Return the fields of a dataclass that are not left out."""
    return {
        field.name: getattr(group, field.name)
        for field in dataclasses.fields(group)
        if getattr(group, field.name) not in (None, (), Limits())
    }
