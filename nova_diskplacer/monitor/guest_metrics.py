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

"""Metrics of servers: CPU time, memory and network, from libvirt."""

from nova_diskplacer.monitor import metric
from nova_diskplacer.monitor import status


def _resource(kind: str, name: str, text: str, field: str) -> metric.Metric:
    """Return a metric of a field of ``guest_counters.GuestResources``."""

    def samples(state: status.Status) -> metric.Samples:
        for server in state.resources:
            if server[field] is not None:
                labels = (state.host, server['server'], server['project'])
                yield labels, server[field]

    return metric.Metric(kind, name, text, metric.SERVER, samples)


def _network(name: str, text: str, field: str) -> metric.Metric:
    def samples(state: status.Status) -> metric.Samples:
        for server in state.resources:
            labels = (state.host, server['server'], server['project'])
            for interface, value in server[field].items():
                yield (*labels, interface), value

    labels = (*metric.SERVER, 'interface')
    return metric.Metric(metric.COUNTER, name, text, labels, samples)


#: Every metric of a server as a whole, in the order of exposition.
METRICS = (
    _resource(
        metric.COUNTER,
        'server_cpu_seconds',
        'CPU time of the server and its QEMU since it was started.',
        'cpu_seconds',
    ),
    _resource(
        metric.GAUGE,
        'server_memory_bytes',
        'Memory that the server has.',
        'memory_bytes',
    ),
    _resource(
        metric.GAUGE,
        'server_memory_used_bytes',
        'Memory in use in the guest, without what it can reclaim from its '
        'caches. Absent unless the guest has the driver of the balloon.',
        'memory_used_bytes',
    ),
    _network(
        'server_network_received_bytes',
        'Bytes that the server received through the interface of the host.',
        'received_bytes',
    ),
    _network(
        'server_network_transmitted_bytes',
        'Bytes that the server sent through the interface of the host.',
        'transmitted_bytes',
    ),
)
