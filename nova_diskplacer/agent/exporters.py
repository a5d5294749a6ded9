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

"""Starts the Prometheus endpoint and the agent's sockets."""

import contextlib
import functools
import socketserver
import ssl
import typing

import prometheus_client
from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client import registry

from nova_diskplacer import exception
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.monitor import host_status
from nova_diskplacer.monitor import metrics
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket

LOG = logging.getLogger(__name__)


def start_exporters(
    conf: cfg.ConfigOpts,
    provider: status.StatusProvider,
    host_provider: host_status.HostStatusProvider,
    wanted_step: step_socket.WantedStep,
) -> None:
    """Serve the status, metrics, and the next step of elastic vdisks.

    Background threads serve it. A failure is logged: the agent works without
    exporters, too.
    """
    state_dir = conf.diskplacer_agent.state_dir
    for serve in (
        functools.partial(status_socket.serve, state_dir, provider),
        functools.partial(step_socket.serve, state_dir, wanted_step),
        functools.partial(serve_metrics, conf, provider, host_provider),
    ):
        try:
            serve()
        except (exception.AgentError, exception.ContentionError) as error:
            LOG.warning('The agent continues without %s', error)


def serve_metrics(
    conf: cfg.ConfigOpts,
    provider: status.StatusProvider,
    host_provider: host_status.HostStatusProvider,
) -> socketserver.BaseServer | None:
    """Serve metrics; returns the server, None if it is disabled.

    :raises ContentionError: the server cannot listen on the address, or the
        options of TLS are invalid.
    """
    options = conf.diskplacer_monitor
    host, port = options.metrics_host, options.metrics_port
    if not port:
        return None
    collectors = registry.CollectorRegistry()
    collectors.register(
        metrics.Collector(provider, host_provider, options.server_metrics)
    )
    # the agent's own use of the host
    prometheus_client.ProcessCollector(registry=collectors)
    try:
        server, thread = prometheus_client.start_http_server(
            port, host, registry=collectors, **_tls(options)
        )
    except OSError as error:
        raise exception.ContentionError(
            f'metrics at {host} port {port}, see the options metrics_* of '
            f'[diskplacer_monitor]: {error.strerror or error}'
        ) from error
    # each client's own thread does the TLS handshake, not the only thread that
    # accepts connections
    if isinstance(server.socket, ssl.SSLSocket):
        listening: typing.Any = server.socket
        listening.do_handshake_on_connect = False
    handler: typing.Any = server.RequestHandlerClass
    server.RequestHandlerClass = type(
        'Handler', (_TimeoutHandler, handler), {}
    )
    return server


def _tls(options: typing.Any) -> dict[str, typing.Any]:
    """Return prometheus_client's arguments for TLS, none without TLS.

    :raises ContentionError: some of the options lack the others; the client
        library would serve without TLS.
    """
    certfile, keyfile = options.metrics_certfile, options.metrics_keyfile
    client_cafile = options.metrics_client_cafile
    if not (certfile or keyfile or client_cafile):
        return {}
    for name in ('metrics_certfile', 'metrics_keyfile'):
        if not options[name]:
            raise exception.ContentionError(
                f'metrics: TLS needs [diskplacer_monitor] {name}, which is '
                'not set'
            )
    return {
        'certfile': certfile,
        'keyfile': keyfile,
        'client_cafile': client_cafile,
        'client_auth_required': bool(client_cafile),
    }


class _TimeoutHandler:
    """Closes the connection of a client that stays silent."""

    timeout = 10.0

    def handle(self) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError, ssl.SSLError):
            super().handle()  # type: ignore[misc]
