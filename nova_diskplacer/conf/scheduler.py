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

"""Options of the filter and the weighers in nova-scheduler."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_scheduler',
    title='Disk placement in nova-scheduler',
    help="""
Choice of hosts and disks by ``DiskPlacementFilter``, ``DiskPlacementWeigher``
and ``DiskPressureWeigher``. nova-scheduler reads the group.
""",
)

OPTS = [
    cfg.FloatOpt(
        'disk_placement_weight_multiplier',
        default=10.0,
        help="""
Multiplier of ``DiskPlacementWeigher``.

A request prefers hosts whose disks suit its mapping best and keep room for
others; see ``disk_spread_up_to``. At the default this counts more than how
much memory, CPU and disk Nova's weighers find free, which count 1 each. At 1,
a full fleet refuses servers with many large vdisks that it could hold. A
negative value inverts the preference, 0 disables the weigher. A request
without ``diskplacer:`` extra specs is not affected.

An aggregate's metadata key ``disk_placement_weight_multiplier`` takes
precedence for its hosts; where a host is in several such aggregates, the
smallest value is used.
""",
    ),
    cfg.FloatOpt(
        'disk_pressure_weight_multiplier',
        default=10.0,
        help="""
Multiplier of ``DiskPressureWeigher``.

Hosts whose disks have been under pressure for minutes are weighed down: at the
value of ``disk_placement_weight_multiplier``, fully utilized disks count as
much against a host as disks without space. A negative value inverts the
preference, 0 disables the weigher. A request without ``diskplacer:`` extra
specs is not affected.

An aggregate's metadata key ``disk_pressure_weight_multiplier`` takes
precedence for its hosts; where a host is in several such aggregates, the
smallest value is used.
""",
    ),
    cfg.FloatOpt(
        'disk_spread_up_to',
        default=0.2,
        min=0.0,
        max=1.0,
        help="""
Committed share of the disks, 0 to 1, up to which requests are spread.

``DiskPlacementWeigher`` then prefers hosts by the mapping of the request
alone; ``round_robin``, for example, prefers hosts whose disks are least
committed. Above it, the weigher fades to packing: see ``disk_pack_from``. The
share is that of all disks of the request's medium on the hosts that the other
filters pass.

Set it and ``disk_pack_from`` to 1 to spread always. Many large vdisks of one
server then fit on no host long before the disks are full.

An aggregate's metadata key ``disk_spread_up_to`` takes precedence for its
hosts; where a host is in several such aggregates, the smallest value is used.
""",
    ),
    cfg.FloatOpt(
        'disk_pack_from',
        default=0.7,
        min=0.0,
        max=1.0,
        help="""
Committed share of the disks, 0 to 1, from which requests are packed.

``DiskPlacementWeigher`` then prefers hosts with little free space, whatever
the mapping of the request, so that other hosts keep room for servers with many
large vdisks; and, as much, hosts with few vdisks, so that servers do not
disturb each other more than they must. Between ``disk_spread_up_to`` and this
share both count in part. A value below ``disk_spread_up_to`` counts as that.

In a fleet of servers that are hardly ever deleted, which only grows, what was
spread stays spread: set both options to 0 there, to pack always.

An aggregate's metadata key ``disk_pack_from`` takes precedence for its hosts;
where a host is in several such aggregates, the smallest value is used.
""",
    ),
    cfg.IntOpt(
        'report_timeout',
        default=360,
        min=5,
        max=3600,
        help="""
Age in seconds from which an agent's last report or heartbeat is too old. The
filter then rejects the host for requests for vdisks until the agent reports
again. Requests without vdisks are not affected.

Keep it at several times ``[diskplacer_agent] heartbeat_interval``.
""",
    ),
    cfg.StrOpt(
        'blank_volumes',
        default='warn',
        choices=[
            ('ignore', 'The server is scheduled'),
            ('warn', 'The server is scheduled, and a warning logged'),
            ('require', 'No host is valid for the server'),
        ],
        help="""
Treatment of a new server that brings fewer volumes than its flavor has
``diskplacer:vdisks``: some of what it claims would not be used. Volumes of
another size than ``diskplacer:vdisk_gb`` do not count.

With the filter in nova-api this does not happen, unless a flavor is changed
while a request is on its way. ``require`` is for a Nova without that filter;
it also refuses servers whose volumes are to be attached later. Servers that
are moved, resized or unshelved are not affected.
""",
    ),
    cfg.BoolOpt(
        'moves',
        default=False,
        help="""
Let Nova move servers with bound vdisks to other hosts: live and cold
migration, resize and unshelve.

If ``False``, a server stays on the host of its vdisks. If ``True``, the host
of the vdisks comes first for a resize or an unshelve: the server goes
elsewhere only if Nova does not offer that host or the server does not fit
there. Elsewhere it claims disks as a new server does, and the vdisks follow
the server. A server with a vdisk that cannot follow stays, and the reason is
logged: volumes that its flavor does not ask for, striped and elastic ones, and
those that are attached as files in a live migration.

Set it only when cinder-volume of all hosts runs a release that moves vdisks:
an earlier one refuses to attach the volumes, and the migration fails.
``diskplacer-status upgrade check`` finds such hosts. Set it to the same value
on all hosts of nova-scheduler.
""",
    ),
    cfg.FloatOpt(
        'warmup_timeout',
        default=5.0,
        min=0.0,
        max=60.0,
        help="""
Maximum time in seconds that the first requests for vdisks or with volumes wait
in a new scheduler worker for the reports of all hosts with disks. Later
requests never wait.
""",
    ),
]
