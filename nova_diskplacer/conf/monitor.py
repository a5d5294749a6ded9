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

"""Options of how the agent watches the I/O of servers and disks."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_monitor',
    title='Monitoring of I/O',
    help="""
How the agent watches what servers and disks do, and what it warns of.
""",
)

OPTS = [
    cfg.FloatOpt(
        'interval',
        default=1.0,
        min=0.2,
        max=60.0,
        help="""
Time in seconds between two looks at the I/O of every server and disk. I/O
weights are decided at each look.
""",
    ),
    cfg.ListOpt(
        'cgroups',
        default=[],
        help="""
Cgroups that are watched, and given weights, beside servers: shell patterns of
paths below the root of the hierarchy, such as ``backup.slice/*.service``. Each
cgroup that matches is one consumer.
""",
    ),
    cfg.IntOpt(
        'pressure_window',
        default=300,
        min=10,
        max=86400,
        help="""
Time in seconds over which the pressure on a disk is averaged that is reported
to the schedulers. A longer one forgives longer bursts.
""",
    ),
    cfg.IntOpt(
        'budget_window',
        default=86400,
        min=60,
        max=2592000,
        help="""
Time in seconds over which the use that a server made of a disk is compared to
its fair share.
""",
    ),
    cfg.FloatOpt(
        'inspection_threshold',
        default=0.2,
        min=0.0,
        max=1.0,
        help="""
Share of a rotational disk's average throughput. While the throughput score of
the disk (bytes/s over busy share and consumers) is below, servers on it are
inspected for excessive seeks. 0: never.
""",
    ),
    cfg.IntOpt(
        'health_interval',
        default=300,
        min=10,
        max=86400,
        help="""
Time in seconds between two looks at what the disks say of their own health
(SMART, where smartctl is installed).
""",
    ),
    cfg.IntOpt(
        'warn_temperature',
        default=60,
        min=0,
        max=150,
        help="""
Temperature of a disk in degrees Celsius at which the agent warns. 0: never.
""",
    ),
    cfg.IntOpt(
        'warn_queue',
        default=0,
        min=0,
        max=65536,
        help="""
Mean number of requests in flight on a disk, over ``pressure_window``, at which
the agent warns. 0: never.
""",
    ),
    cfg.FloatOpt(
        'warn_performance',
        default=0.5,
        min=0.0,
        max=1.0,
        help="""
Share of a disk's own long-term throughput when busy. The agent warns when that
of the last hour falls below. 0: never.
""",
    ),
    cfg.HostAddressOpt(
        'metrics_host',
        default='127.0.0.1',
        help="""
Address where the agent serves metrics to Prometheus. They tell UUIDs of
servers and projects: restrict who reaches any address but loopback.
""",
    ),
    cfg.PortOpt(
        'metrics_port',
        default=9748,
        help="""
TCP port where the agent serves metrics to Prometheus. 0: they are not served.
""",
    ),
]
