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

"""Metrics of the agent for Prometheus.

``METRICS`` lists every metric; the documentation is made from it too, and the
dashboard in ``etc/grafana`` shows each.
"""

import collections.abc

from prometheus_client import core
from prometheus_client import registry

from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import guest_metrics
from nova_diskplacer.monitor import host_metrics
from nova_diskplacer.monitor import host_status
from nova_diskplacer.monitor import io_metrics
from nova_diskplacer.monitor import metric
from nova_diskplacer.monitor import status

_IO_METRICS = (
    *io_metrics.METRICS,
    *guest_metrics.METRICS,
    *elastic_status.METRICS,
)

#: Every metric, in the order of exposition.
METRICS = (*host_metrics.METRICS, *_IO_METRICS)


class Collector(registry.Collector):
    """Collects the metrics of both providers for prometheus_client.

    Metrics of a status that is not known yet are left out.

    :param of_servers: whether metrics of servers are included.
    """

    def __init__(
        self,
        io_provider: status.StatusProvider,
        host_provider: host_status.HostStatusProvider,
        of_servers: bool = True,
    ) -> None:
        self._io_provider = io_provider
        self._host_provider = host_provider
        self._of_servers = of_servers

    def collect(self) -> collections.abc.Iterator[core.Metric]:
        """Yield the metric families with samples."""
        yield from self._families(host_metrics.METRICS, self._host_provider())
        yield from self._families(_IO_METRICS, self._io_provider())

    def _families(
        self, metrics: collections.abc.Iterable[metric.Metric], state: object
    ) -> collections.abc.Iterator[core.Metric]:
        for figure in metrics:
            left_out = 'server' in figure.labels and not self._of_servers
            if state is not None and not left_out:
                yield _family(figure, state)


def _family(figure: metric.Metric, state: object) -> core.Metric:
    family = core.Metric(
        f'diskplacer_{figure.name}', figure.text, figure.kind, figure.unit
    )
    for labels, value in figure.samples(state):
        family.add_sample(
            figure.full_name,
            dict(zip(figure.labels, labels, strict=True)),
            value,
        )
    return family
