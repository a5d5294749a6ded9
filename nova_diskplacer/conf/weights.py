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

"""Options of how the agent weighs the I/O of servers."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_weights',
    title='I/O weights',
    help="""
How the agent shares disks among the servers on them: who uses a disk much
falls in class and weight, who uses it little stays fast.
""",
)

OPTS = [
    cfg.StrOpt(
        'mode',
        default='off',
        choices=[
            ('on', 'Set weights'),
            ('dry_run', 'Change nothing, show what would be set'),
            ('off', 'Undo what was set before, then decide nothing'),
        ],
        help="""
Whether the agent sets the I/O weights of servers on prepared disks.
""",
    ),
    cfg.StrOpt(
        'controller',
        default='auto',
        choices=[
            (
                'auto',
                'bfq on disks whose I/O scheduler is bfq, io.cost on others',
            ),
            ('bfq', 'Only on disks whose I/O scheduler is bfq'),
            ('io.cost', 'Only io.cost, which needs cgroup v2'),
        ],
        help="""
What makes the kernel honour weights. io.cost keeps the I/O scheduler that a
disk has and needs to know how fast the disk is: see ``diskplacer-manage disk
measure``. A disk where neither can be had is shown as an error, and nothing is
set there.
""",
    ),
    cfg.StrOpt(
        'curve',
        default='linear',
        help="""
How the class of a consumer falls with what it has read and written: a plugin
of ``nova_diskplacer.penalty_curves``. ``linear`` loses a class with each
``scale_mb``; ``logarithmic`` loses one each time the use doubles beyond it,
ten at the most.
""",
    ),
    cfg.IntOpt(
        'classes',
        default=10,
        min=1,
        max=100,
        help="""
Number of classes: a consumer begins in the highest. 1: all are equal.
""",
    ),
    cfg.IntOpt(
        'scale_mb',
        default=128,
        min=1,
        max=1048576,
        help="""
How much use of a disk costs a class, in MB (10^6 bytes). What a disk does in
half a second to a second is a good value.
""",
    ),
    cfg.FloatOpt(
        'idle_recovery',
        default=0.5,
        min=0.0,
        max=100.0,
        help="""
Share of ``scale_mb`` that is forgiven for each interval in which a consumer
did not use a disk. 0: nothing is ever forgiven.
""",
    ),
    cfg.BoolOpt(
        'idle_class',
        default=False,
        help="""
Whether there is a class 0 below all others, with the least weight that the
controller has. Consumers who go on and on using a disk fall into it, and get
little more there than the others leave.
""",
    ),
    cfg.StrOpt(
        'group_by',
        default='project',
        choices=[
            ('project', 'All servers of a project share one class and weight'),
            ('server', 'Each server has a class and weight of its own'),
        ],
        help="""
Whose use of a disk counts together. By project nobody gains by spreading I/O
over many servers.
""",
    ),
    cfg.DictOpt(
        'tiers',
        default={},
        help="""
Usage tiers: the lowest and the highest class of each, in per cent of
``classes``, such as ``gold:50-100,silver:10-100,bronze:0-40``. A flavor names
its tier with ``diskplacer:io_tier``. Only a tier that begins at 0 lets its
servers into the idle class, if there is one.
""",
    ),
    cfg.DictOpt(
        'project_tiers',
        default={},
        help="""
Tier that bounds all servers of a project, by the project's ID. What their
flavors ask for is cut down to it.
""",
    ),
    cfg.ListOpt(
        'exempt',
        default=[],
        help="""
Whose weights are never touched: UUIDs of servers, IDs of projects, or paths of
cgroups that ``[diskplacer_monitor] cgroups`` matches.
""",
    ),
    cfg.IntOpt(
        'seek_penalty',
        default=5,
        min=0,
        max=100,
        help="""
How many classes a consumer loses while it seeks excessively on a rotational
disk. 0: servers are not inspected for seeks.
""",
    ),
]
