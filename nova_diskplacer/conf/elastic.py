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

"""Options of elastic vdisks."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_elastic',
    title='Elastic vdisks',
    help="""
Number of disks that hold an elastic vdisk, its width: it is widened under
sustained pressure and narrowed when it is quiet. Each change is a move: a copy
of a part of it.

The agent decides, and ``diskplacer-manage elastic run`` moves.
""",
)

OPTS = [
    cfg.BoolOpt(
        'enabled',
        default=False,
        help="""
Decide on the width of elastic vdisks. If false, they keep the width that they
have, unless an operator moves them. The simulation ignores it.
""",
    ),
    cfg.FloatOpt(
        'interval',
        default=10.0,
        min=1.0,
        max=300.0,
        help="""
Time in seconds between two decisions. Each takes the mean utilization of the
disks since the one before.
""",
    ),
    cfg.FloatOpt(
        'widen_pressure',
        default=0.8,
        min=0.05,
        max=1.0,
        help="""
Utilization of a disk, 0 to 1, from which a vdisk on it is widened: its mean
over ``widen_after``.
""",
    ),
    cfg.FloatOpt(
        'widen_share',
        default=0.5,
        min=0.05,
        max=1.0,
        help="""
Least part of that utilization that a vdisk itself must cause to be widened, as
a share, 0 to 1, of the largest other part: that of another elastic vdisk, or
of all other users of the disk together. A vdisk that causes less keeps its
width: its neighbours are the reason for the pressure.
""",
    ),
    cfg.FloatOpt(
        'widen_after',
        default=120.0,
        min=1.0,
        max=86400.0,
        help="""
Time in seconds over which utilization is averaged. A vdisk is not moved before
it was measured for so long where it is.
""",
    ),
    cfg.IntOpt(
        'widen_factor',
        default=2,
        min=2,
        max=64,
        help="""
Factor by which one move widens a vdisk, up to its maximum. With 2 each move
waits for ``widen_after`` to show that more disks are needed. With 64 a vdisk
gets its maximum at once.
""",
    ),
    cfg.FloatOpt(
        'narrow_pressure',
        default=0.3,
        min=0.01,
        max=0.95,
        help="""
Utilization that a vdisk would cause on each of fewer disks, 0 to 1, below
which it is narrowed to them. Together with ``target_pressure`` it must not
exceed ``widen_pressure``, or a steady load would widen and narrow in turn.
""",
    ),
    cfg.FloatOpt(
        'narrow_after',
        default=900.0,
        min=1.0,
        max=604800.0,
        help="""
Time in seconds for which the use of a vdisk must stay so low before it is
narrowed. Each time that a vdisk must be widened again after it was narrowed
doubles this time for it, up to ``narrow_after_max``.
""",
    ),
    cfg.FloatOpt(
        'narrow_after_max',
        default=28800.0,
        min=1.0,
        max=2592000.0,
        help="""
Longest time in seconds to which ``narrow_after`` is doubled, at least that. A
load with shorter pauses ends up with a constant width. A vdisk that stayed
narrow for so long begins with ``narrow_after`` again.
""",
    ),
    cfg.FloatOpt(
        'min_interval',
        default=300.0,
        min=0.0,
        max=604800.0,
        help="""
Least time in seconds between the end of a move of a vdisk and its next move. A
move that failed counts too; each further failure doubles the time until the
next try, up to ``narrow_after_max``.
""",
    ),
    cfg.FloatOpt(
        'target_pressure',
        default=0.5,
        min=0.0,
        max=1.0,
        help="""
Utilization of a disk by others than the vdisk, 0 to 1, above which no part of
the vdisk is moved there: its mean over ``widen_after``.
""",
    ),
    cfg.FloatOpt(
        'copy_share',
        default=0.1,
        min=0.01,
        max=0.5,
        help="""
Share of a disk's time, 0 to 1, that a move takes, in whole per cent, and so of
what servers on the disk lose to it. The rate of a move is the share of the
throughput that ``diskplacer-manage disk list`` shows, and less for hard disks,
which seek for each 512 KiB that are copied. ``elastic run`` reads it when it
starts.
""",
    ),
    cfg.FloatOpt(
        'max_move_time',
        default=43200.0,
        min=1.0,
        max=604800.0,
        help="""
Longest time in seconds that a move may take, as it is estimated. A move that
would take longer is not begun.
""",
    ),
]
