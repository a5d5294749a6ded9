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


"""How long services take to report again after a fault."""

import collections.abc
import contextlib
import datetime
import json
import threading
import time
import uuid

import kombu
import pymysql
import requests

from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import reading

# Seconds after which a service is held not to recover by itself.
LIMIT = 240
_INTERVAL = 0.5
# where Nova's and Cinder's services report themselves
_DATABASES = {'nova': 'nova_cell1', 'cinder': 'cinder'}
_REPORTS = 'diskplacer_reports_fanout'
_APIS = {'nova-api': 'nova', 'cinder-api': 'cinder'}


class Reports:
    """Notes when the agent of each host has last sent a report."""

    def __init__(self, cloud: Cloud) -> None:
        self._url = ini.transport(cloud.state).replace('rabbit:', 'amqp:')
        self._over = threading.Event()
        self.last: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._over.is_set():
            # the broker is stopped, killed and hung
            with contextlib.suppress(Exception):
                self._listen()
            self._over.wait(1)

    def _listen(self) -> None:
        with kombu.Connection(
            self._url, connect_timeout=5, heartbeat=10
        ) as connection:
            channel = connection.channel()
            queue = kombu.Queue(
                f'storm-{uuid.uuid4()}', exclusive=True, channel=channel
            )
            queue.queue_declare()
            queue.bind_to(_REPORTS)
            with kombu.Consumer(
                channel, queue, on_message=self._note, no_ack=True
            ):
                while not self._over.is_set():
                    with contextlib.suppress(TimeoutError):
                        connection.drain_events(timeout=2)
                    connection.heartbeat_check()

    def _note(self, message: kombu.Message) -> None:
        outer = json.loads(message.body)
        inner = json.loads(outer['oslo.message'])
        report = inner.get('args', {}).get('report', {})
        if 'host' in report:
            self.last[report['host']] = time.time()


class Watch:
    """Waits until services report themselves again."""

    def __init__(self, cloud: Cloud, reports: Reports) -> None:
        self._cloud = cloud
        self._reports = reports

    def seconds(self, names: collections.abc.Iterable[str]) -> float | None:
        """Return how long services take to report, None if they do not."""
        begun = time.time()
        left = set(names)
        while left and time.time() < begun + LIMIT:
            left = {name for name in left if not self._reported(name, begun)}
            if left:
                time.sleep(_INTERVAL)
        return None if left else round(time.time() - begun, 1)

    def all_services(self) -> list[str]:
        """Return the services that report themselves, or answer."""
        return [
            name
            for name in self._cloud.services
            if name
            not in (
                'epmd',
                'memcached',
                'neutron',
                'diskplacer-vendordata',
                'heat-api',
                'heat-engine',
                'mariadb',
                'rabbitmq',
            )
            and not name.startswith(
                ('glance', 'cinder-backup', 'libvirtd', 'namespaces')
            )
        ]

    def _reported(self, name: str, begun: float) -> bool:
        binary, _, host = name.partition('@')
        if binary == 'diskplacer-agent':
            return self._reports.last.get(host, 0) > begun
        if binary == 'libvirtd':
            with contextlib.suppress(process.ProcessError):
                return bool(hypervisor.hostname(self._cloud.state, host))
            return False
        if name in ('mariadb', 'rabbitmq'):
            return True
        if binary in ('placement', 'keystone', *_APIS):
            return self._answers(_APIS.get(binary, binary))
        with contextlib.suppress(pymysql.MySQLError):
            return self._in_database(binary, host, begun)
        return False

    def _answers(self, api: str) -> bool:
        url = self._cloud.state.url(api)
        try:
            return requests.get(url, timeout=5).status_code < 500
        except requests.RequestException:
            return False

    def _in_database(self, binary: str, host: str, begun: float) -> bool:
        """Return whether all rows of a service are newer, and enabled."""
        rows = reading.query(
            self._cloud.state,
            _DATABASES[binary.partition('-')[0]],
            'SELECT host, updated_at, disabled FROM services'
            f" WHERE deleted = 0 AND `binary` = '{binary}'",
        )
        after = datetime.datetime.fromtimestamp(begun, datetime.UTC)
        return all(
            row['updated_at']
            and row['updated_at'] > after.replace(tzinfo=None)
            and not row['disabled']
            for row in rows
            if not host or row['host'].partition('@')[0] == host
        )
