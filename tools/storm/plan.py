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


"""Which faults come, in which order: everything follows from the seed.

A lane is a sequence of faults, one after the other. All kinds of a lane come
before one of them comes again.
"""

import collections.abc
import dataclasses
import itertools
import random
import typing

from tools.minicloud.state import Host

# Seconds between the end of a fault and the next one of its lane.
PAUSE = (2, 8)

# services that are not of one host
CONTROLLERS = (
    'nova-scheduler',
    'nova-conductor',
    'nova-api',
    'cinder-scheduler',
    'cinder-api',
    'placement',
    'keystone',
    'libvirtd@compute1',
)
BACKING = ('mariadb', 'rabbitmq')

# Each kind, and for how many seconds it lasts.
SERVICE_FAULTS = {'kill': (0, 15), 'hang': (15, 45), 'stop': (10, 30)}
# The guests of the libvirt host have its disks open, so that they can be
# filled and frozen, and nothing else.
OPEN_DISK_FAULTS = {'fill': (15, 40), 'freeze': (10, 35)}
DISK_FAULTS = {
    **OPEN_DISK_FAULTS,
    'vanish': (15, 40),
    'read-only': (15, 40),
    'fail': (15, 40),
}
# For how long the command may run before it is killed.
OPERATIONS = {
    'drain': (120, 120),
    'drain-killed': (2, 12),
    'drain-cancelled': (2, 12),
    'two-drains': (120, 120),
    'audit': (120, 120),
    'audit-repair': (120, 120),
}


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens to what: ``target`` is a service or a host.

    ``disks`` are indices of disks of the host, ``seconds`` is how long it
    lasts, ``pause`` how many seconds pass before it begins.
    """

    kind: str
    target: str
    seconds: float
    pause: float
    disks: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What is counted: the kind, and the service or ``disk``."""
        thing = self.target.partition('@')[0]
        return f'{self.kind} {"disk" if self.disks else thing}'


@dataclasses.dataclass(frozen=True)
class Done:
    """A fault that has ended, and how long the recovery has taken.

    ``recovered`` is in seconds, None where nothing is waited for.
    """

    fault: Fault
    begun: float
    recovered: float | None = None


Lane = collections.abc.Iterator[Fault]


class _Kind(typing.NamedTuple):
    """A fault that may come: it takes ``chosen`` of so many ``disks``."""

    kind: str
    target: str
    seconds: tuple[float, float]
    chosen: int = 0
    disks: int = 0


def lanes(seed: int, hosts: collections.abc.Sequence[Host]) -> dict[str, Lane]:
    """Return the lanes of a storm by name; each goes on without an end."""
    return {
        'services': _lane(seed, 'services', _service_faults(hosts)),
        'disks': _lane(seed, 'disks', _disk_faults(hosts)),
        'operator': _lane(seed, 'operator', _operations(hosts)),
    }


def service_faults() -> list[str]:
    """Return the names of all faults of services, sorted."""
    host = Host('', 'libvirt')
    faults = [
        Fault(one.kind, one.target, 0, 0) for one in _service_faults([host])
    ]
    return sorted({one.name for one in faults})


def _service_faults(
    hosts: collections.abc.Sequence[Host],
) -> list[_Kind]:
    targets = [*CONTROLLERS]
    killed = [*targets]
    for host in hosts:
        of_host = [
            f'{name}@{host.name}'
            for name in ('cinder-volume', 'diskplacer-agent')
        ]
        targets += [*of_host, f'nova-compute@{host.name}']
        killed += of_host
        if host.guests == 'libvirt':
            # the driver with fake guests forgets them
            killed.append(f'nova-compute@{host.name}')
    kinds = [('kill', target) for target in killed]
    kinds += [('hang', target) for target in targets]
    kinds += [(kind, one) for kind in SERVICE_FAULTS for one in BACKING]
    return [_Kind(kind, name, SERVICE_FAULTS[kind]) for kind, name in kinds]


def _disk_faults(
    hosts: collections.abc.Sequence[Host],
) -> list[_Kind]:
    return [
        _Kind(kind, host.name, seconds, 1, host.disks)
        for host in hosts
        for kind, seconds in (
            OPEN_DISK_FAULTS if host.guests == 'libvirt' else DISK_FAULTS
        ).items()
    ]


def _operations(
    hosts: collections.abc.Sequence[Host],
) -> list[_Kind]:
    return [
        _Kind(
            kind,
            host.name,
            seconds,
            2 if kind == 'two-drains' else 1,
            host.disks,
        )
        for host in hosts
        for kind, seconds in OPERATIONS.items()
    ]


def _lane(
    seed: int,
    name: str,
    kinds: list[_Kind],
) -> Lane:
    rng = random.Random(f'{seed}/{name}')
    for _ in itertools.count():
        rng.shuffle(kinds)
        for kind, target, seconds, chosen, disks in kinds:
            yield Fault(
                kind,
                target,
                round(rng.uniform(*seconds), 1),
                round(rng.uniform(*PAUSE), 1),
                tuple(rng.sample(range(disks), chosen)),
            )
