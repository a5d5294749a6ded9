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

"""Has the agent answer who wants to see its rounds."""

import contextlib
import socketserver
import typing

import prometheus_client
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client import registry

from nova_diskplacer import exception
from nova_diskplacer.monitor import metrics
from nova_diskplacer.monitor import status_socket

LOG = logging.getLogger(__name__)


def serve(conf: cfg.ConfigOpts, take: status_socket.Take) -> None:
    """Answer ``diskplacer-manage top`` and Prometheus, in other threads.

    Raises nothing: what cannot be served is warned of, and the agent does
    its work without.

    :param take: returns the snapshot of the last round; None: there was
        none yet.
    """
    for start in (_inquiries, serve_metrics):
        try:
            start(conf, take)
        except exception.ContentionError as error:
            LOG.warning('The agent goes on without %s', error)


def _inquiries(conf: cfg.ConfigOpts, take: status_socket.Take) -> None:
    status_socket.serve(conf.diskplacer_agent.state_dir, take)


def serve_metrics(
    conf: cfg.ConfigOpts, take: status_socket.Take
) -> socketserver.BaseServer | None:
    """Serve the metrics; returns the server, None if there is to be none.

    :raises ContentionError: the address cannot be listened at.
    """
    host = conf.diskplacer_monitor.metrics_host
    port = conf.diskplacer_monitor.metrics_port
    if not port:
        return None
    known = registry.CollectorRegistry()
    known.register(metrics.Collector(take))
    # what the agent itself takes of the host
    prometheus_client.ProcessCollector(registry=known)
    try:
        server, thread = prometheus_client.start_http_server(
            port, host, registry=known
        )
    except OSError as error:
        raise exception.ContentionError(
            f'metrics at {host} port {port}, see [diskplacer_monitor] '
            f'metrics_host and metrics_port: {error.strerror or error}'
        ) from error
    handler: typing.Any = server.RequestHandlerClass
    server.RequestHandlerClass = type('Handler', (_Patience, handler), {})
    return server


class _Patience:
    """Gives a client up that stays silent."""

    timeout = 10.0

    def handle(self) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError):
            super().handle()  # type: ignore[misc]
