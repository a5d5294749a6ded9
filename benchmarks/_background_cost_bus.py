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
"""What reports cost a nova-scheduler worker and a real RabbitMQ."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import uuid

import oslo_messaging
import psutil
from oslo_config import cfg

from nova_diskplacer import report_format
from nova_diskplacer import reports
from nova_diskplacer.conf import agent as options
from nova_diskplacer.scheduler import host_disk_cache
from nova_diskplacer.scheduler import report_listener
from tools.minicloud import backing
from tools.minicloud import process
from tools.minicloud import state as states

DISKS = 12
PATIENCE = 600

# Time in seconds between the looks of all agents, and what a look may take
# until a heartbeat is sent.
LOOKS = next(
    one.default for one in options.OPTS if one.name == 'watch_interval'
)
LATE = 0.1


def report(host):
    """Return the report of a host with 12 disks and a vdisk on each."""
    return report_format.with_digest(
        {
            'version': report_format.VERSION,
            'host': f'compute-{host}',
            'compute_node': f'compute-{host}.example.org',
            'provider': str(uuid.UUID(int=host + 1)),
            'cache_mode': 'none',
            'disks': [
                {
                    'uuid': str(uuid.UUID(int=(host << 32) + disk + 1)),
                    'medium': 'hdd',
                    'model': 'ST8000NM0055-1RM112',
                    'numa_node': disk % 2,
                    'total_gb': 7451,
                    'reserved_gb': 0,
                    'used_gb': 100,
                    'total_mbps': 150,
                    'used_mbps': 0,
                    'health': 'ok',
                    'pressure': 0,
                    'vdisks': [
                        {
                            'volume_id': str(
                                uuid.UUID(int=(host << 64) + disk)
                            ),
                            'server_id': str(uuid.UUID(int=host << 64)),
                            'size_gb': 100,
                            'is_snapshot': False,
                        }
                    ],
                }
                for disk in range(DISKS)
            ],
        }
    )


@contextlib.contextmanager
def rabbitmq():
    """Run a RabbitMQ; yields its transport URL and a function to ask it."""
    with tempfile.TemporaryDirectory(prefix='background-cost-') as path:
        state = states.create(pathlib.Path(path))
        programs = [backing.epmd(state), backing.rabbitmq(state)]
        try:
            for program in programs:
                program.start()
                program.wait_ready()
            environment = process.environment(
                **backing.rabbitmq_environment(state)
            )

            def queues():
                """Return {name: {messages, memory, …}} of all queues."""
                done = subprocess.run(
                    [
                        '/usr/lib/rabbitmq/bin/rabbitmqctl',
                        '--quiet', '--formatter', 'json',
                        'list_queues', 'name', 'messages', 'memory',
                        'message_bytes',
                    ],
                    env=environment,
                    check=True,
                    capture_output=True,
                )  # fmt: skip
                return {one['name']: one for one in json.loads(done.stdout)}

            port = state.ports['rabbitmq']
            yield (
                f'rabbit://openstack:{state.secret}@127.0.0.1:{port}/',
                queues,
            )
        finally:
            for program in reversed(programs):
                program.stop()


class Worker:
    """The cache and its listener of a nova-scheduler worker."""

    def __init__(self, url, hosts):
        context = multiprocessing.get_context('spawn')
        self._results, self._orders = context.Queue(), context.Queue()
        self._process = context.Process(
            target=_work, args=(url, hosts, self._results, self._orders)
        )
        self._process.start()
        self.memory = self._results.get(timeout=PATIENCE)

    def cpu(self, messages, send):
        """Return its CPU time, in seconds, while it takes in messages.

        :param send: sends so many.
        """
        self._orders.put(messages)
        self._results.get(timeout=PATIENCE)
        send()
        return self._results.get(timeout=PATIENCE)

    def end(self, number=signal.SIGTERM):
        """End it, by SIGKILL if told so."""
        if number == signal.SIGKILL:
            self._process.kill()
        else:
            self._orders.put(None)
        self._process.join(PATIENCE)


def _transport(url):
    cfg.CONF([], default_config_files=[], default_config_dirs=[])
    # it registers the option
    oslo_messaging.TransportURL.parse(cfg.CONF, url)
    cfg.CONF.set_override('transport_url', url)
    return reports.get_transport(cfg.CONF)


class _Counted(host_disk_cache.HostDiskCache):
    """A cache that counts what it takes in."""

    taken = 0

    def update(self, report):
        super().update(report)
        self.taken += 1

    def confirm(self, provider, digest):
        self.taken += 1
        return super().confirm(provider, digest)


def _work(url, hosts, results, orders):
    transport = _transport(url)
    cache = _Counted(3600)
    before = psutil.Process().memory_info().rss
    for host in range(hosts):
        cache.update(report(host))
    memory = psutil.Process().memory_info().rss - before
    heard = report_listener.CacheUpdater(transport, cache, set, 0.0)
    heard.start()
    heard.cache()
    results.put(memory)
    while (messages := orders.get()) is not None:
        wanted = cache.taken + messages
        began = time.process_time()
        results.put('ready')
        deadline = time.monotonic() + PATIENCE
        while cache.taken < wanted and time.monotonic() < deadline:
            time.sleep(0.25)
        results.put(time.process_time() - began)
    heard.stop()
    os._exit(0)


class Agents:
    """All agents of a cloud, as far as a worker hears of them."""

    def __init__(self, url, hosts):
        self._transport = _transport(url)
        self._reports = [report(host) for host in range(hosts)]
        self._next = 0

    def report(self, number, seconds=0):
        """Send as many reports in that time."""
        self._send(number, seconds, lambda one: one)

    def confirm(self, number, seconds=0):
        """Send as many heartbeats in that time."""
        self._send(number, seconds, report_format.heartbeat)

    def _moments(self, number, seconds):
        """Return when agents send: each is a little late to its look."""
        return sorted(
            seconds * count / number // LOOKS * LOOKS + random.uniform(0, LATE)
            for count in range(number)
        )

    def _send(self, number, seconds, make):
        began = time.monotonic()
        for due in self._moments(number, seconds):
            late = began + due - time.monotonic()
            if late > 0:
                time.sleep(late)
            self._next = (self._next + 1) % len(self._reports)
            reports.send_report(
                self._transport, make(self._reports[self._next])
            )
