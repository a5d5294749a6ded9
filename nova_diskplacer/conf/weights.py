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

"""Options of the I/O weights that the agent sets."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_weights',
    title='I/O weights',
    help="""
Sharing of disks among the servers on them by I/O weights. A server that uses a
disk much falls in class and weight; one that uses it little stays fast.
""",
)

OPTS = [
    cfg.StrOpt(
        'mode',
        default='off',
        choices=[
            ('on', 'Set weights'),
            ('dry_run', 'Set nothing, show the weights that on would set'),
            ('off', 'Restore the weights that were set before, then set none'),
        ],
        help="""
Setting of the I/O weights of servers on prepared disks. The host needs cgroup
v2 with the io controller.
""",
    ),
    cfg.StrOpt(
        'controller',
        default='auto',
        choices=[
            (
                'auto',
                'bfq on hard disks, and on solid state disks whose I/O '
                'scheduler is bfq; io.cost on other solid state disks',
            ),
            ('bfq', 'bfq on all disks'),
            (
                'io.cost',
                'io.cost on solid state disks; an error on hard disks',
            ),
        ],
        help="""
Mechanism of the kernel that enforces weights. Where it is bfq, the agent sets
bfq as the I/O scheduler of the disk (``[diskplacer_agent] queue_tuning``),
unless the profile of a server there excludes it: such a disk is left without
weights. io.cost works with any I/O scheduler, and needs a model of the disk's
speed: see ``diskplacer-manage disk measure``. It does not keep the own queue
of a hard disk from preferring servers that read in sequence. Where the
mechanism is not available the agent shows an error and sets no weights.
""",
    ),
    cfg.StrOpt(
        'prefer',
        default='balanced',
        choices=[
            (
                'throughput',
                'Light servers gain what costs the disk 2 % of its throughput',
            ),
            (
                'balanced',
                'Light servers gain what costs the disk a fifth of its '
                'throughput',
            ),
            (
                'latency',
                'Light servers gain what costs the disk three fifths of its '
                'throughput',
            ),
        ],
        help="""
What settings of BFQ on a hard disk may cost while its servers differ in
weight. The agent tries each load that lasts: it keeps the shortest turns of
servers that cost no more, in throughput of all, than this allows, and BFQ's
own settings if none do. It changes no settings of disks with io.cost, where
weights alone decide.
""",
    ),
    cfg.StrOpt(
        'curve',
        default='linear',
        help="""
How the class of a consumer falls with its use of a disk, in units of
``scale_mb``. ``linear``: by one with each unit. ``logarithmic``: by one each
time the use doubles beyond the first unit, by ten at the most. A list of
numbers, such as ``1,2,4,8``: by one at each of them.
""",
    ),
    cfg.IntOpt(
        'classes',
        default=10,
        min=1,
        max=100,
        help="""
Number of classes. A consumer begins in the highest class. With 1 all consumers
are equal.
""",
    ),
    cfg.IntOpt(
        'scale_mb',
        default=128,
        min=1,
        max=1048576,
        help="""
Use of a disk that costs a consumer one class, in MB (10^6 bytes). A good value
is the throughput of a disk in half a second to a second.
""",
    ),
    cfg.FloatOpt(
        'idle_recovery',
        default=0.5,
        min=0.0,
        max=100.0,
        help="""
Share of ``scale_mb`` by which a consumer's recorded use of a disk shrinks in
each second without I/O there. With 0 only ``use_window`` bounds it.
""",
    ),
    cfg.FloatOpt(
        'use_window',
        default=20.0,
        min=1.0,
        max=3600.0,
        help="""
Time in seconds after which a consumer's use of a disk no longer counts. Its
recorded use is at most what it used in this time, multiplied by the number of
consumers of the disk. With a short time, servers that use a disk steadily rise
to a high class; with a long one, servers stay in a low class for longer after
they have used the disk much.
""",
    ),
    cfg.BoolOpt(
        'idle_class',
        default=False,
        help="""
Adds a class 0 below all others, with the lowest weight of the controller.
Consumers that use a disk without pause fall into it, and get little more there
than the others leave.
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
Consumers whose use of a disk is added up. With ``project`` a project gains
nothing by spreading its I/O over many servers.
""",
    ),
    cfg.DictOpt(
        'tiers',
        default={},
        help="""
Usage tiers, with the lowest and the highest class of each in per cent of
``classes``, such as ``gold:50-100,silver:10-100,bronze:0-40``. A flavor names
its tier with ``diskplacer:io_tier``. Servers can fall into the idle class only
in tiers that begin at 0.
""",
    ),
    cfg.DictOpt(
        'project_tiers',
        default={},
        help="""
Tier that limits all servers of a project, by the ID of the project. The tiers
of their flavors are cut down to it.
""",
    ),
    cfg.ListOpt(
        'exempt',
        default=[],
        help="""
Consumers whose weights the agent never sets: UUIDs of servers, IDs of
projects, or paths of cgroups that ``[diskplacer_monitor] cgroups`` matches.
""",
    ),
    cfg.IntOpt(
        'seek_penalty',
        default=50,
        min=0,
        max=100,
        help="""
Classes that a consumer loses while it seeks excessively on a rotational disk,
in per cent of ``classes``. 0 disables the tracing of seeks, as ``mode = off``
does. With io.cost no seeks are traced, as it charges for the time that they
take.
""",
    ),
]
