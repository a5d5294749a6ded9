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

"""Reads the counters of a running server, and compares two readings."""

import dataclasses

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import vcpu_threads
from nova_diskplacer.host import libvirt_connection
from nova_diskplacer.monitor import guest_counters

VCPU_SECONDS = 'vcpu_seconds'
VCPU_WAIT_SECONDS = 'vcpu_wait_seconds'
MIGRATIONS = 'migrations'
CACHE_REFERENCES = 'cache_references'
CACHE_MISSES = 'cache_misses'
DISK_READS = 'disk_reads'
DISK_READ_BYTES = 'disk_read_bytes'
DISK_WRITES = 'disk_writes'
DISK_WRITE_BYTES = 'disk_write_bytes'
MAJOR_FAULTS = 'major_faults'
MEMORY_USED_BYTES = 'memory_used_bytes'
MEMORY_UNUSED_BYTES = 'memory_unused_bytes'
MEMORY_RSS_BYTES = 'memory_rss_bytes'

#: What each counter is, in the order of output.
TEXTS = {
    VCPU_SECONDS: 'time that the vCPUs ran',
    VCPU_WAIT_SECONDS: 'time that they waited for a CPU of the host',
    MIGRATIONS: 'moves of their threads from one CPU to another',
    CACHE_REFERENCES: 'accesses to the last-level cache (LLC loads of P1)',
    CACHE_MISSES: 'accesses that it did not hold (LLC load misses of P1)',
    DISK_READS: 'requests to read from disks',
    DISK_READ_BYTES: 'bytes that they read',
    DISK_WRITES: 'requests to write to disks',
    DISK_WRITE_BYTES: 'bytes that they wrote',
    MAJOR_FAULTS: 'page faults in the guest that waited for a disk',
    MEMORY_USED_BYTES: 'memory that the guest cannot reclaim',
    MEMORY_UNUSED_BYTES: 'memory that the guest uses for nothing',
    MEMORY_RSS_BYTES: 'memory of the host that QEMU has',
}

#: Those that are no sums, but sizes at the end of a run.
SIZES = (MEMORY_USED_BYTES, MEMORY_UNUSED_BYTES, MEMORY_RSS_BYTES)

_KIB = 1024

# One event of each vCPU, in nanoseconds.
_OF_VCPUS = {VCPU_SECONDS: 'time', VCPU_WAIT_SECONDS: 'delay'}
_PERF = (CACHE_REFERENCES, CACHE_MISSES)
_OF_DISKS = {
    DISK_READ_BYTES: 0,
    DISK_WRITE_BYTES: 1,
    DISK_READS: 2,
    DISK_WRITES: 3,
}

_NO_PERF = (
    'libvirt has no such perf event of the server: it takes a processor whose '
    'cache events the host can count, [libvirt] enabled_perf_events = '
    f'{", ".join(_PERF)} in nova.conf, and a hard reboot of the server'
)
_NO_DELAY = 'libvirt does not tell it: it needs libvirt 7.1 and schedstats'
_NO_BALLOON = (
    'the guest does not report it: it needs the driver of the balloon, and '
    '[libvirt] mem_stats_period_seconds above 0 in nova.conf'
)
_NO_REPORT = (
    'the guest reported nothing meanwhile: the run must take longer than '
    '[libvirt] mem_stats_period_seconds in nova.conf'
)
_NO_DISKS = 'the server has no disk, or QEMU was busy'

# A counter, or the reason that it is missing.
_Value = float | str


@dataclasses.dataclass(frozen=True)
class Reading:
    """Counters of a server since its start, by their names above.

    ``run`` is libvirt's ID of the running domain. ``missing`` has the reason
    for each counter that is not there. ``reported`` is the time in seconds of
    the last report of the guest, None without one.
    """

    server: str
    run: int
    vcpus: int
    memory_bytes: int
    counters: dict[str, float]
    missing: dict[str, str]
    reported: int | None = None


def read(uri: str, server: str, proc: str = '/proc') -> Reading:
    """Read the counters of a running server.

    :param server: UUID.
    :raises SizingError: it does not run here, or libvirt-python is missing.
    :raises HypervisorError: libvirt does not answer.
    """
    libvirt = libvirt_connection.import_libvirt()
    if libvirt is None:
        raise errors.SizingError('the counters of servers need libvirt-python')
    groups = (
        libvirt.VIR_DOMAIN_STATS_BLOCK
        | libvirt.VIR_DOMAIN_STATS_CPU_TOTAL
        | libvirt.VIR_DOMAIN_STATS_BALLOON
        | libvirt.VIR_DOMAIN_STATS_VCPU
        | libvirt.VIR_DOMAIN_STATS_PERF
    )
    with libvirt_connection.connect(uri, 'read counters') as connection:
        try:
            domain = connection.lookupByUUIDString(server)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
            raise _not_running(server) from error
        run = domain.ID()
        if run < 0:
            raise _not_running(server)
        ((_, stats),) = connection.domainListGetStats([domain], groups)
    try:
        moved: int | str = vcpu_threads.migrations(server, proc)
    except (errors.SizingError, OSError) as error:
        moved = str(error)
    return parse(server, run, stats, moved)


def parse(
    server: str, run: int, stats: guest_counters.Stats, migrations: int | str
) -> Reading:
    """Return a reading of libvirt's statistics.

    :param migrations: those of the vCPUs' threads, or the reason without.
    :raises SizingError: libvirt does not report the size of the server.
    """
    guest = guest_counters.parse(stats)
    vcpus, memory = stats.get('vcpu.current'), guest.resources.memory_bytes
    if not vcpus or not memory:
        raise errors.SizingError(
            f'libvirt does not tell the vCPUs and memory of server {server}'
        )
    values: dict[str, _Value] = {
        **_of_vcpus(stats, vcpus),
        MIGRATIONS: migrations,
        **{name: stats.get(f'perf.{name}', _NO_PERF) for name in _PERF},
        **_of_disks(guest),
        **_of_balloon(stats, guest),
    }
    counters = {
        name: value
        for name, value in values.items()
        if not isinstance(value, str)
    }
    missing = {
        name: reason
        for name, reason in values.items()
        if isinstance(reason, str)
    }
    return Reading(
        server=server,
        run=run,
        vcpus=vcpus,
        memory_bytes=memory,
        counters=counters,
        missing=missing,
        reported=stats.get('balloon.last-update'),
    )


def _of_vcpus(stats: guest_counters.Stats, vcpus: int) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for name, key in _OF_VCPUS.items():
        of_each = [
            stats[f'vcpu.{number}.{key}']
            for number in range(stats.get('vcpu.maximum', vcpus))
            if f'vcpu.{number}.{key}' in stats
        ]
        values[name] = (
            sum(of_each) / 1e9 if len(of_each) >= vcpus else _NO_DELAY
        )
    return values


def _of_disks(guest: guest_counters.GuestCounters) -> dict[str, _Value]:
    disks = guest.disks.values()
    return {
        name: sum(disk[column] for disk in disks) if disks else _NO_DISKS
        for name, column in _OF_DISKS.items()
    }


def _of_balloon(
    stats: guest_counters.Stats, guest: guest_counters.GuestCounters
) -> dict[str, _Value]:
    sizes = {
        MEMORY_UNUSED_BYTES: stats.get('balloon.unused'),
        MEMORY_RSS_BYTES: stats.get('balloon.rss'),
    }
    values: dict[str, int | None] = {
        MAJOR_FAULTS: stats.get('balloon.major_fault'),
        MEMORY_USED_BYTES: guest.resources.memory_used_bytes,
        **{
            name: None if size is None else size * _KIB
            for name, size in sizes.items()
        },
    }
    return {
        name: _NO_BALLOON if value is None else value
        for name, value in values.items()
    }


def between(
    before: Reading, after: Reading
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the changes from one reading to the other, and missing counters.

    Sizes are those of the later reading.

    :raises SizingError: the server was started anew, or changed its size.
    """
    if before.run != after.run:
        raise errors.SizingError(
            f'server {after.server} was started anew during the run'
        )
    for name in ('vcpus', 'memory_bytes'):
        then, now = getattr(before, name), getattr(after, name)
        if then != now:
            raise errors.SizingError(
                f'server {after.server} changed during the run: {name} from '
                f'{then} to {now}'
            )
    missing = {**before.missing, **after.missing}
    changes = {}
    for name, value in after.counters.items():
        if name in SIZES:
            changes[name] = value
        elif name == MAJOR_FAULTS and before.reported == after.reported:
            missing[name] = _NO_REPORT
        elif name in before.counters:
            changes[name] = value - before.counters[name]
            if changes[name] < 0:
                del changes[name]
                missing[name] = 'it was reset during the run'
    return changes, missing


def _not_running(server: str) -> errors.SizingError:
    return errors.SizingError(f'server {server} does not run on this host')
