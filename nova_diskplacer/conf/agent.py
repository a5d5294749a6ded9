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
The agent of a compute node, which watches the node's prepared disks and
reports them to Placement and the schedulers.
""",
)

OPTS = [
    cfg.IntOpt(
        'report_interval',
        default=10,
        min=1,
        max=600,
        help="""
Time in seconds between two updates of the disks' resource providers while
disks, vdisks or servers of this host change, and for ``idle_interval`` after
the last change. An update takes at least two requests to Placement. A change
of a disk or of its vdisks is published after ``watch_interval`` at the latest;
claims of a scheduler take some seconds longer.
""",
    ),
    cfg.IntOpt(
        'idle_interval',
        default=60,
        min=1,
        max=3600,
        help="""
Time in seconds between two updates of the resource providers while nothing
changes on the host. The agent sees claims that Nova makes or releases
meanwhile after this time at the latest. Smaller values cost Placement more
requests.
""",
    ),
    cfg.IntOpt(
        'heartbeat_interval',
        default=120,
        min=1,
        max=3600,
        help="""
Time in seconds between two heartbeats. A heartbeat confirms the last report of
the host's disks to the schedulers; changes are reported at once regardless.
Smaller values cost each nova-scheduler worker more CPU time, as it takes some
for each heartbeat.

Keep ``[diskplacer_scheduler] report_timeout`` at several times this value.
""",
    ),
    cfg.IntOpt(
        'watch_interval',
        default=2,
        min=1,
        max=60,
        help="""
Time in seconds between two checks of the host's own disks. A check reads only
the disk root and sysfs. After a change the agent updates the resource
providers and sends a report at once.
""",
    ),
    cfg.StrOpt(
        'libvirt_uri',
        default='qemu:///system',
        help="""
URI of the libvirt that nova-compute uses, the same as ``[libvirt]
connection_uri`` of its configuration. The agent reads there which servers have
vdisks on which disks, and the extra specs of their flavors.
""",
    ),
    cfg.StrOpt(
        'queue_tuning',
        default='on',
        choices=[
            (
                'on',
                'Set queues; restore them when the last such server leaves',
            ),
            ('dry_run', 'Set nothing, log the changes that on would make'),
            ('off', 'Restore the queues that were set before, then set none'),
        ],
        help="""
Tuning of the request queues of prepared disks (I/O scheduler, read-ahead and
so on) to the profiles of the servers that run and have vdisks there, see
``diskplacer:profile``, and to I/O weights, see ``[diskplacer_weights]
controller``. The agent never changes any other queue.
""",
    ),
    cfg.BoolOpt(
        'spindown',
        default=False,
        help="""
Let rotational disks spin down that have no I/O for ``spindown_timeout``. The
agent sets the standby timeout of each prepared disk with ``hdparm``; if
``False``, it removes those that it has set before. The first request to a disk
in standby waits until it has spun up, for ten seconds and more.
""",
    ),
    cfg.IntOpt(
        'spindown_timeout',
        default=1800,
        min=60,
        max=19800,
        help="""
Time in seconds without I/O after which a disk spins down, with ``spindown``.
It is rounded up to a timeout that ATA disks have: a multiple of 5 seconds up
to 20 minutes, 21 minutes, 21 minutes and 15 seconds, or a multiple of 30
minutes.
""",
    ),
    cfg.MultiStrOpt(
        'disk_power',
        default=[],
        help="""
Power in watts that a model of disks takes when it is idle and in standby:
``MODEL=IDLE:STANDBY``, such as ``ST8000NM0055-1RM=5.0:1.0``. The model is that
in ``/sys/block/*/device/model``; the figures are in its data sheet. The agent
estimates the energy that standby saves for these models only.

Repeat the option for each model.
""",
    ),
    cfg.StrOpt(
        'state_dir',
        default='/run/diskplacer',
        help="""
Directory where the agent records, until the next boot, its changes to kernel
settings and the values before. Agents of several compute services on one
machine need a directory each.
""",
    ),
    cfg.ListOpt(
        'nova_conf',
        default=['/etc/nova/nova.conf', '/etc/nova/nova-compute.conf'],
        help="""
Configuration files of this host's nova-compute. The agent reads those that
exist in this order, then the ``*.conf`` files in the directories named after
them (``/etc/nova/nova.conf.d``). It uses ``[libvirt] disk_cachemodes``, the
host cache mode of vdisks, which it reports to the schedulers; and ``[compute]
cpu_shared_set`` and ``cpu_dedicated_set``, the CPUs for servers that ask for
the NUMA node of their disks.

If no file exists, the agent reports the cache mode that the vdisks of the
host's servers have. Without such vdisks the cache mode is unknown.
""",
    ),
]
