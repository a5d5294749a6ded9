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

"""Options of the monitoring of servers' and disks' I/O."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_monitor',
    title='Monitoring of I/O',
    help="""
Monitoring of the I/O of servers and disks by the agent, and its warnings.
""",
)

OPTS = [
    cfg.FloatOpt(
        'interval',
        default=1.0,
        min=0.2,
        max=60.0,
        help="""
Time in seconds between two samples of the I/O of every server and disk. The
agent decides I/O weights after each sample.
""",
    ),
    cfg.ListOpt(
        'cgroups',
        default=[],
        help="""
Cgroups that the agent monitors and weighs besides servers: shell patterns of
paths below the root of the hierarchy, such as ``backup.slice/*.service``. Each
matching cgroup is one consumer.
""",
    ),
    cfg.IntOpt(
        'pressure_window',
        default=300,
        min=10,
        max=86400,
        help="""
Time in seconds over which the agent averages the pressure on a disk that it
reports to the schedulers. A longer window forgives longer bursts.
""",
    ),
    cfg.IntOpt(
        'budget_window',
        default=86400,
        min=60,
        max=2592000,
        help="""
Time in seconds over which the agent compares a server's use of a disk with its
fair share.
""",
    ),
    cfg.IntOpt(
        'idle_after',
        default=900,
        min=10,
        max=2592000,
        help="""
Time in seconds without I/O after which a disk counts as idle, in metrics,
``diskplacer-manage top`` and the map. What checks of the disk read, up to 16
KiB a second, is no I/O.
""",
    ),
    cfg.FloatOpt(
        'inspection_threshold',
        default=0.2,
        min=0.0,
        max=1.0,
        help="""
Share of a rotational disk's average throughput. While the throughput score of
the disk (bytes per second, divided by the busy share and the number of
consumers) is below this share, and all consumers together have less than 40
per cent of that throughput, the agent traces its servers for excessive seeks,
unless io.cost is enabled for the disk. 0 disables tracing, as
``[diskplacer_weights] mode = off`` does.
""",
    ),
    cfg.IntOpt(
        'health_interval',
        default=300,
        min=10,
        max=86400,
        help="""
Time in seconds between two readings of the disks' SMART health data. Without
smartctl the agent reads none.
""",
    ),
    cfg.IntOpt(
        'warn_temperature',
        default=60,
        min=0,
        max=150,
        help="""
Temperature of a disk in degrees Celsius from which the agent warns. 0 disables
the warning.
""",
    ),
    cfg.IntOpt(
        'warn_queue',
        default=0,
        min=0,
        max=65536,
        help="""
Mean number of requests in flight on a disk, over ``pressure_window``, from
which the agent warns. 0 disables the warning.
""",
    ),
    cfg.FloatOpt(
        'warn_performance',
        default=0.5,
        min=0.0,
        max=1.0,
        help="""
Share of a disk's own long-term throughput when busy. The agent warns when the
throughput of the last hour is below this share. 0 disables the warning.
""",
    ),
    cfg.HostAddressOpt(
        'metrics_host',
        default='127.0.0.1',
        help="""
Address where the agent serves metrics to Prometheus. Metrics have the UUIDs of
servers and projects as labels, see ``server_metrics``: on any other address
than loopback, restrict access or set ``metrics_client_cafile``.
""",
    ),
    cfg.PortOpt(
        'metrics_port',
        default=9748,
        help="""
TCP port where the agent serves metrics to Prometheus. 0 disables the endpoint.
""",
    ),
    cfg.BoolOpt(
        'server_metrics',
        default=True,
        help="""
Serve the metrics of servers: up to twelve series for each server and disk,
three for each server, and two for each of its network interfaces. Without them
a host has some thirty series for each disk, and no series names a server or
project.
""",
    ),
    cfg.StrOpt(
        'metrics_certfile',
        help="""
File with the certificate, and its chain, for metrics over TLS (PEM). The agent
then serves metrics by https only. Set ``metrics_keyfile`` too. The agent reads
the files when it starts.
""",
    ),
    cfg.StrOpt(
        'metrics_keyfile',
        help="""
File with the private key of ``metrics_certfile`` (PEM).
""",
    ),
    cfg.StrOpt(
        'metrics_client_cafile',
        help="""
File with the certificates of authorities (PEM). Only clients with a
certificate of one of them can then read metrics. It needs
``metrics_certfile``.
""",
    ),
]
