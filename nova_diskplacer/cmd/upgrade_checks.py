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

"""The checks of ``diskplacer-status``: pure functions over facts.

Each result names the option, its value and the cure.
"""

import collections.abc
import dataclasses
import typing

from oslo_upgradecheck import upgradecheck

from nova_diskplacer import constants
from nova_diskplacer import flavor as flavor_
from nova_diskplacer.api import backend_media
from nova_diskplacer.profiles import queue_policy
from nova_diskplacer.scheduler import filter_order

LOCALITY_FILTER = 'VDiskLocalityFilter'
_CAPACITY_FILTER = 'CapacityFilter'

#: All filters of Nova, and the default of its option ``available_filters``.
ALL_FILTERS = 'nova.scheduler.filters.all_filters'

_OURS = (
    'nova_diskplacer.scheduler.filter.DiskPlacementFilter',
    'nova_diskplacer.scheduler.room.DiskRoomFilter',
)

Code = upgradecheck.Code
Result: typing.TypeAlias = upgradecheck.Result


@dataclasses.dataclass(frozen=True)
class Software:
    """The release and profiles of the agent or a scheduler of a host.

    They are '' if it is of an earlier release, which does not tell them.
    """

    host: str
    release: str
    profiles: str


@dataclasses.dataclass(frozen=True)
class VolumeType:
    """A volume type; ``backend`` is its ``volume_backend_name``, or ''."""

    name: str
    backend: str


@dataclasses.dataclass(frozen=True)
class Flavor:
    """A flavor with vdisks, of ``vdisk_gb`` GiB each.

    ``volume_type`` is the name of theirs, '' for the default one.
    ``without_bfq`` are the media for which its profile excludes BFQ.
    """

    name: str
    vdisks: int
    vdisk_gb: int
    media: str = flavor_.ANY
    volume_type: str = ''
    without_bfq: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class WeighingHost:
    """A host with I/O weights on, and the media of its disks.

    ``controller`` is its ``[diskplacer_weights] controller``.
    """

    host: str
    controller: str
    media: frozenset[str]


def success(details: str | None = None) -> Result:
    """Return the result of a check that found nothing."""
    return Result(Code.SUCCESS, details)


def failure(details: str) -> Result:
    """Return the result of a check that found what must be mended."""
    return Result(Code.FAILURE, details)


def warning(details: str) -> Result:
    """Return the result of a check that found what should be looked at."""
    return Result(Code.WARNING, details)


def nova_filters(
    enabled: list[str] | None, available: collections.abc.Collection[str]
) -> Result:
    """Check the filters of nova-scheduler.

    :param enabled: ``[filter_scheduler] enabled_filters``, None if nova.conf
        does not set it.
    :param available: ``[filter_scheduler] available_filters``.
    """
    if enabled is None:
        return warning(
            '[filter_scheduler] enabled_filters is not set in nova.conf of '
            f'this host, and its default lacks {filter_order.PLACEMENT_FILTER}'
            '. Run this command on a host of nova-scheduler, or append '
            f'{filter_order.PLACEMENT_FILTER} to the filters there.'
        )
    problem = filter_order.problem(enabled)
    if problem:
        return failure(problem)
    classes = {path.rpartition('.')[2]: path for path in (*_OURS, *available)}
    missing = [
        name
        for name in enabled
        if classes.get(name, ALL_FILTERS) not in available
    ]
    if missing:
        needed = [ALL_FILTERS] + [
            path for path in _OURS if path.rpartition('.')[2] in enabled
        ]
        return failure(
            f'[filter_scheduler] available_filters is {", ".join(available)}: '
            'nova-scheduler does not start without the classes of '
            f'{", ".join(missing)}. It needs a line available_filters = for '
            f'each of: {", ".join(needed)}. Without a line, it is the first.'
        )
    return success()


def cinder_filters(enabled: list[str] | None) -> Result:
    """Check the filters of cinder-scheduler.

    :param enabled: ``scheduler_default_filters``, None if cinder.conf does
        not set it or is not there.
    """
    option = '[DEFAULT] scheduler_default_filters'
    if enabled is None:
        return warning(
            f'{option} is not set in cinder.conf of this host, and its '
            f'default lacks {LOCALITY_FILTER}. Run this command on a host of '
            f'cinder-scheduler, or put {LOCALITY_FILTER} in the place of '
            f'{_CAPACITY_FILTER} there.'
        )
    listed = ', '.join(enabled)
    if LOCALITY_FILTER not in enabled:
        return failure(
            f'{option} is {listed}: volumes of servers are created on any '
            f'host. Put {LOCALITY_FILTER} in the place of {_CAPACITY_FILTER}.'
        )
    if _CAPACITY_FILTER in enabled:
        return failure(
            f'{option} is {listed}: {_CAPACITY_FILTER} refuses the volumes of '
            'a server that has claimed the last room of its host. Remove it; '
            f'{LOCALITY_FILTER} does its work for other backends.'
        )
    return success()


def hosts(
    nova: collections.abc.Collection[str],
    cinder: collections.abc.Collection[str],
) -> Result:
    """Check that Nova and Cinder name the hosts with disks alike.

    :param nova: the names of hosts with disks, as their agents report them.
    :param cinder: the hosts of backends with vdisks.
    """
    missing = sorted(set(nova) - set(cinder))
    if missing:
        return failure(
            f'Nova names hosts with disks {", ".join(missing)}, and Cinder '
            'has no backend with vdisks of these names but of: '
            f'{", ".join(sorted(cinder)) or "none"}. Start cinder-volume '
            'there, and set [DEFAULT] host (or backend_host of the backend) '
            'in cinder.conf to [DEFAULT] host of nova.conf.'
        )
    return success()


def agents(
    answers: collections.abc.Collection[Software],
    silent: collections.abc.Collection[str],
    release: str,
) -> Result:
    """Check that all agents report and are of one release.

    :param silent: the hosts with disks in Placement that did not report.
    :param release: of this package.
    """
    if silent:
        return failure(
            f'The agents of {", ".join(sorted(silent))} have not answered. '
            'Start diskplacer-agent there; it and this command need the same '
            '[DEFAULT] transport_url. If a host is gone for good, remove it '
            'as in "Take a host out of service" of the documentation: its '
            'compute service is the last to be deleted.'
        )
    return _releases('diskplacer-agent', answers, release)


def schedulers(
    answers: collections.abc.Collection[Software], release: str
) -> Result:
    """Check that the schedulers that answer are of one release."""
    if not answers:
        return success(
            'Not checked: no scheduler has answered. One answers after its '
            'first request for a server since its start, if it is not of an '
            'earlier release.'
        )
    return _releases('nova-scheduler', answers, release)


def _releases(
    service: str, answers: collections.abc.Collection[Software], release: str
) -> Result:
    others = sorted(
        {
            f'{software.host} ({software.release or "an earlier release"})'
            for software in answers
            if software.release != release
        }
    )
    if others:
        return warning(
            f'nova-diskplacer is {release} on this host, and {service} has '
            f'another release on: {", ".join(others)}. Upgrade the package '
            f'there and restart {service}.'
        )
    return success()


def profiles(
    answers: collections.abc.Iterable[Software], release: str, digest: str
) -> Result:
    """Check that all hosts have the profiles of this one.

    Hosts of other releases are left out: their shipped profiles differ.

    :param answers: agents and schedulers.
    :param digest: of the profiles of this host.
    """
    others = sorted(
        {
            software.host
            for software in answers
            if software.release == release and software.profiles != digest
        }
    )
    if others:
        return failure(
            'Profiles of workloads differ from those of this host on: '
            f'{", ".join(others)}. Copy the files of [diskplacer] '
            'profile_dirs to all hosts and restart diskplacer-agent and '
            'nova-scheduler.'
        )
    return success()


def weights(
    hosts: collections.abc.Collection[WeighingHost],
    flavors: collections.abc.Iterable[Flavor],
) -> Result:
    """Check that options and profiles leave no disk without I/O weights.

    Whether the kernel of a host can weigh a disk, ``weights check`` tells.
    """
    found = []
    refused = sorted(
        weighing.host
        for weighing in hosts
        if weighing.controller == queue_policy.IO_COST
        and constants.HDD in weighing.media
    )
    if refused:
        found.append(
            '[diskplacer_weights] controller is io.cost, and hard disks have '
            f'no weights then, on: {", ".join(refused)}. Set controller = '
            'auto: hard disks have bfq then, solid state disks io.cost.'
        )
    need_bfq = {
        medium
        for weighing in hosts
        for medium in weighing.media
        if queue_policy.needs_bfq(medium, weighing.controller)
    }
    left_out = [
        f'{flavor.name} ({medium})'
        for flavor in flavors
        for medium in sorted(flavor.without_bfq & need_bfq)
        if flavor.media in (flavor_.ANY, medium)
    ]
    if left_out:
        found.append(
            'Hosts have [diskplacer_weights] mode=on, and disks with servers '
            'of these flavors have no weights there, because the schedulers '
            f'of their profiles lack bfq: {", ".join(left_out)}. Add bfq to '
            'the lists, at any place, or use other profiles.'
        )
    return warning(' '.join(found)) if found else success()


def moves(enabled: bool, unable: collections.abc.Collection[str]) -> Result:
    """Check that all backends move vdisks where servers may move with them.

    :param enabled: ``[diskplacer_scheduler] moves``.
    :param unable: the hosts of backends that do not say that they do.
    """
    if enabled and unable:
        return warning(
            '[diskplacer_scheduler] moves is true, and cinder-volume moves no '
            f'vdisks on: {", ".join(sorted(unable))}. Servers that Nova moves '
            'from or to these hosts fail to attach their volumes. Upgrade '
            'nova-diskplacer there, set target_helper = lioadm in the '
            'sections of the backends, with no target_prefix or one whose '
            'only colon is at its end, and restart cinder-volume, or set '
            'moves to false until then.'
        )
    return success()


def volume_types(
    types: collections.abc.Collection[VolumeType],
    default: str | None,
    backends: collections.abc.Collection[str],
) -> Result:
    """Check that a volume type leads to vdisks, and the default one knows.

    :param default: name of Cinder's default volume type, None without one.
    :param backends: ``volume_backend_name`` of the backends with vdisks.
    """
    named = ', '.join(sorted(backends))
    if not backends:
        return failure(
            'Cinder has no backend with vdisks. Name the section of '
            'VDiskMapperDriver in [DEFAULT] enabled_backends of cinder.conf '
            'on each host with disks and start cinder-volume there.'
        )
    if not any(volume_type.backend in backends for volume_type in types):
        return failure(
            f'No volume type has volume_backend_name={named}. Create one: '
            'openstack volume type create --property '
            f'volume_backend_name={sorted(backends)[0]} vdisk.'
        )
    backend = next(
        (
            volume_type.backend
            for volume_type in types
            if volume_type.name == default
        ),
        '',
    )
    if not backend:
        return warning(
            f'[DEFAULT] default_volume_type is {default or "not set"} and '
            'names no backend, so that volumes without a type may take room '
            f'of disks for vdisks ({named}). Set volume_backend_name of that '
            'type, or another default type.'
        )
    return success()


def media(
    flavors: collections.abc.Iterable[Flavor],
    types: collections.abc.Iterable[VolumeType],
    default: str | None,
    pools: collections.abc.Collection[backend_media.Pool],
) -> Result:
    """Check that the vdisks of each flavor fit its volume type.

    :param default: name of Cinder's default volume type, None without one.
    """
    backends = {volume_type.name: volume_type.backend for volume_type in types}
    problems = []
    for flavor in flavors:
        volume_type = flavor.volume_type or default or ''
        problem = backend_media.problem(
            flavor.media, volume_type, backends.get(volume_type, ''), pools
        )
        if problem:
            problems.append(f'{flavor.name}: {problem}.')
    if problems:
        return failure(
            'Servers of these flavors may claim disks that their volumes '
            'cannot use. Set diskplacer:media or diskplacer:volume_type. '
            + ' '.join(problems)
        )
    return success()
