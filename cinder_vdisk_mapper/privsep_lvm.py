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

"""Root's helper process of the LVM backend.

Its capabilities:

CAP_DAC_OVERRIDE
    open a volume that libvirt gave to QEMU's user.

LVM's commands, which it starts, have others:

CAP_SYS_ADMIN
    talk to the kernel's device mapper.
CAP_SYS_MODULE
    load the device mapper's module for snapshots if it is not loaded.
"""

import collections.abc
import functools
from typing import Any

from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context

from cinder_vdisk_mapper import privsep
from nova_diskplacer import exception
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import remote
from nova_diskplacer.disks.location import Location
from nova_diskplacer.disks.lvm import commands
from nova_diskplacer.disks.lvm import copies
from nova_diskplacer.disks.lvm import groups
from nova_diskplacer.disks.lvm import leg_moves
from nova_diskplacer.disks.lvm import resync_throttle
from nova_diskplacer.disks.lvm import stripe_snapshots
from nova_diskplacer.disks.lvm import stripes
from nova_diskplacer.disks.lvm import volumes
from nova_diskplacer.host import files
from nova_diskplacer.host import probes

context = priv_context.PrivContext(
    'cinder_vdisk_mapper',
    cfg_section='vdisk_lvm_privsep',
    pypath=__name__ + '.context',
    capabilities=[capabilities.CAP_DAC_OVERRIDE],
)
cfg.CONF.set_default(
    'thread_pool_size', privsep.THREADS, group=context.cfg_section
)

# A command that a root process starts has all capabilities of the bounding
# set, even those that the process lacks.
_CONFINED = (
    'setpriv',
    '--no-new-privs',
    '--inh-caps=-all',
    '--bounding-set=-all,+sys_admin,+sys_module',
)


def _on_disk(
    function: collections.abc.Callable[..., Any],
) -> privsep.Operation:
    """Return an operation that is refused for a disk that hangs."""

    @functools.wraps(function)
    def operation(uuid: str, *arguments: Any, root: str) -> Any:
        return groups.run_unless_hung(uuid, lambda: function(uuid, *arguments))

    return operation


def _copy(uuid: str, name: str, target: str, rate: int) -> None:
    """Copy a vdisk, unless the disk ``target`` hangs."""
    groups.run_unless_hung(
        target, lambda: copies.copy(uuid, name, target, rate)
    )


def copy_remote(uuid: str, name: str, start: int, *, root: str) -> int | None:
    """Copy one part of the vdisk of another host to that of this one.

    As :func:`copies.copy_remote`; the other vdisk is that of the link.
    """

    def from_remote() -> int | None:
        device = remote.path(root, name)
        return copies.copy_remote(uuid, name, device, start)

    return groups.run_unless_hung(uuid, from_remote)


def _on_disks(
    function: collections.abc.Callable[..., Any], locations: int = 1
) -> privsep.Operation:
    """Return an operation that is refused if a disk of a location hangs.

    :param locations: number of the arguments that are such locations, 2 for
        those before and after a move.
    """

    @functools.wraps(function)
    def operation(*arguments: Any, root: str) -> Any:
        places = [place for place in arguments if isinstance(place, Location)]
        work = functools.partial(function, *arguments)
        for uuid in sorted(set().union(*places[:locations])):
            work = functools.partial(groups.run_unless_hung, uuid, work)
        return work()

    return operation


#: an operation that is refused if a disk of a move hangs
_on_both = functools.partial(_on_disks, locations=2)


def release_writes(name: str, moved: bool, *, root: str) -> None:
    """Repeat writes in one place, as :func:`leg_moves.release_writes`.

    :raises DiskHung: a disk hangs; they are repeated when it answers.
    """
    job = probes.Job(lambda: leg_moves.release_writes(name, moved))
    if not job.wait(probes.HUNG_AFTER):
        raise exception.DiskHung(
            f'the writes to {name} wait for a disk that does not answer'
        )
    job.result()


def limit_copies(percent: int, *, root: str) -> None:
    """Bound copies, as :func:`resync_throttle.limit_copies`."""
    resync_throttle.limit_copies(percent)


def release_throttle(*, root: str) -> None:
    """Let copies run freely, as :func:`resync_throttle.release_throttle`."""
    resync_throttle.release_throttle()


OPERATIONS: dict[str, privsep.Operation] = {
    **privsep.COMMON,
    'disks': privsep.list_disks(discover.LVM),
    'in_use': _on_disk(volumes.in_use),
    'writes': _on_disk(volumes.writes),
    'create': _on_disk(volumes.create),
    'extend': _on_disk(volumes.extend),
    'shrink': _on_disk(volumes.shrink),
    'mark_deleted': _on_disk(volumes.mark_deleted),
    'zero': _on_disk(volumes.zero),
    'remove': _on_disk(volumes.remove),
    'rename': _on_disk(volumes.rename),
    'snapshot': _on_disk(copies.snapshot),
    'allocate_clone': _on_disk(copies.allocate_clone),
    'clone': _on_disk(copies.clone),
    'revert': _on_disk(copies.revert),
    'clear': _on_disk(copies.clear),
    'copy': _on_disk(_copy),
    'copy_remote': copy_remote,
    'activate': _on_disk(volumes.activate),
    'legs': _on_disk(volumes.legs),
    'create_piece': _on_disk(volumes.create_piece),
    'activate_stripe': _on_disks(stripes.activate_stripe),
    'deactivate_stripe': _on_disks(stripes.deactivate_stripe),
    'resume_stripes': _on_disks(stripes.resume_stripes),
    'snapshot_stripe': _on_disks(stripe_snapshots.snapshot_stripe),
    'stripe_writes': _on_disks(stripe_snapshots.stripe_writes),
    'create_legs': _on_both(leg_moves.create_legs),
    'begin_move': _on_both(leg_moves.begin_move),
    'move_progress': _on_disks(leg_moves.move_progress),
    'complete_legs': _on_both(leg_moves.complete_legs),
    # the other disks may hang
    'end_move': _on_disks(leg_moves.end_move),
    'release_writes': release_writes,
    'settle_legs': _on_both(leg_moves.settle_legs),
    'moving_legs': _on_disk(leg_moves.moving_legs),
    'remove_legs': _on_disk(leg_moves.remove_legs),
    'interrupted_move': _on_disk(leg_moves.interrupted_move),
    'limit_copies': limit_copies,
    'release_throttle': release_throttle,
}


@privsep.entry_point(context)
def run(disk_root: str, operation: str, *arguments: Any) -> Any:
    """Run an operation in the helper process, LVM's commands confined.

    :raises DiskError: see :func:`privsep.call`; or the operation fails.
    """
    commands.set_launcher(*_CONFINED)
    cfg.CONF.register_opt(diskplacer.LOCK_DIR, group=diskplacer.GROUP.name)
    files.set_lock_directory(cfg.CONF.diskplacer.lock_dir)
    return privsep.call(OPERATIONS, disk_root, operation, arguments)
