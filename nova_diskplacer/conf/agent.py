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

"""Options of diskplacer-agent."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_agent',
    title='diskplacer-agent',
    help="""
How the agent of a compute node watches and reports its disks.
""",
)

OPTS = [
    cfg.IntOpt(
        'report_interval',
        default=10,
        min=1,
        max=600,
        help="""
Time in seconds between two reconciliations of the disks' resource providers
while disks, vdisks or servers of this host change, and for ``idle_interval``
after. Each takes two requests to Placement or more. A change of a disk or of
its vdisks is reconciled and reported at the next look, see
``watch_interval``; claims that a scheduler has made are some seconds later.
""",
    ),
    cfg.IntOpt(
        'idle_interval',
        default=60,
        min=1,
        max=3600,
        help="""
Time in seconds between two reconciliations while nothing changes. What Nova
claims or releases while nothing else changes on the host is seen after this
time at most. Smaller values cost Placement more requests.
""",
    ),
    cfg.IntOpt(
        'heartbeat_interval',
        default=120,
        min=1,
        max=3600,
        help="""
Time in seconds between two heartbeats, which tell the schedulers that the last
report of the host's disks is still true. A change is reported at once in any
case. Smaller values cost each nova-scheduler worker more CPU time: a heartbeat
takes it 1 to 2 ms.

Keep ``[diskplacer_scheduler] report_timeout`` at several times this value.
""",
    ),
    cfg.IntOpt(
        'watch_interval',
        default=2,
        min=1,
        max=60,
        help="""
Time in seconds between two looks at the host's own disks. A look reads the
disk root and sysfs only; if anything changed, providers are reconciled and a
report is sent at once.
""",
    ),
    cfg.StrOpt(
        'libvirt_uri',
        default='qemu:///system',
        help="""
The libvirt that nova-compute uses, as ``[libvirt] connection_uri`` of its
configuration has it. It tells which servers have vdisks on which disk and
what their flavors ask for.
""",
    ),
    cfg.StrOpt(
        'queue_tuning',
        default='on',
        choices=[
            ('on', 'Change them, and back when the last such server leaves'),
            ('dry_run', 'Change nothing, log what would be changed'),
            ('off', 'Undo what was changed before, then change nothing'),
        ],
        help="""
Whether the request queues of prepared disks (I/O scheduler, read-ahead and so
on) are set as the profiles of the servers want that run and have vdisks there,
see ``diskplacer:profile``. No other queue is ever changed.
""",
    ),
    cfg.StrOpt(
        'state_dir',
        default='/run/diskplacer',
        help="""
Directory where the agent keeps, for this boot of the machine, what it has
changed and how that was before. Agents of several compute services on one
machine need one each.
""",
    ),
    cfg.ListOpt(
        'nova_conf',
        default=['/etc/nova/nova.conf', '/etc/nova/nova-compute.conf'],
        help="""
Configuration files of this host's nova-compute; those that exist are read in
this order, then the ``*.conf`` in directories that are named like them
(``/etc/nova/nova.conf.d``). ``[libvirt] disk_cachemodes`` in them says with
which host cache mode vdisks are attached, which is reported to the
schedulers. ``[compute] cpu_shared_set`` and ``cpu_dedicated_set`` say on which
CPUs servers may be kept that ask for the NUMA node of their disks.

If none exists, the cache mode is that of the vdisks of the servers that are
here, and not known if there are none.
""",
    ),
]
