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


"""Has a cloud settle when its faults are over, and checks it."""

import collections
import json
import time

from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.storm import invariants
from tools.storm import reading
from tools.storm import recovery
from tools.storm.clients import Client
from tools.storm.facts import Facts
from tools.storm.invariants import Violation
from tools.storm.operator import Operator

# Seconds for the agents to report what has changed, and until a violation
# counts as one that stays.
_SETTLE = 90
_QUIET = 150
_INTERVAL = 5


class Checker:
    """Checks a cloud; what is found is added to ``violations``."""

    def __init__(
        self, cloud: Cloud, watch: recovery.Watch, operator: Operator
    ) -> None:
        self._cloud = cloud
        self._watch = watch
        self._operator = operator
        self.violations: list[Violation] = []
        self.repairs: collections.Counter[str] = collections.Counter()
        self.vdisks = 0

    def settle(self) -> None:
        """Have everything run, and nothing be under way."""
        for service in self._cloud.services.values():
            if service.record.exists() and not service.running():
                self._violated('service', service.name, 'has died')
                service.stop()
                service.start()
        names = self._watch.all_services()
        if self._watch.seconds(names) is None:
            self._violated('recovery', 'all', 'do not report after a storm')
        for host in self._cloud.hosts:
            self._operator.cancel_all(host.name)
        deadline = time.monotonic() + _QUIET
        while invariants.busy(reading.read(self._cloud)):
            if time.monotonic() > deadline:
                return
            time.sleep(_INTERVAL)

    def check(self, clients: list[Client]) -> None:
        """Repair by audits, then judge facts, bytes and audits."""
        hosts = [host.name for host in self._cloud.hosts]
        for host in hosts:
            repaired = self._operator.audit(host, '--repair')['repaired']
            self.repairs.update(one['kind'] for one in repaired)
        findings = []
        for host in hosts:
            audited = self._operator.audit(host, '--repair')
            findings += audited['findings']
            for one in audited['repaired']:
                self._violated(
                    'second-repair', host, json.dumps(one, sort_keys=True)
                )
        found = self._judge()
        texts = [json.dumps(one, sort_keys=True) for one in findings]
        self.violations += invariants.told(found, 'audit', 'disk audit', texts)
        owned = {
            volume.uuid
            for client in clients
            for volume in (*client.owned.volumes, *client.given_up)
        }
        self.violations += invariants.unused(found, owned, '\n'.join(texts))
        self.violations += invariants.told(
            found, 'check', 'vdisk check', self._vdisk_check()
        )
        self.violations += invariants.told(
            found, 'map', 'diskplacer-manage map', self._map()
        )
        for client in clients:
            self.vdisks += client.compare_all()

    def check_empty(self) -> None:
        """Check that nothing is left when everything was deleted."""
        found: list[Violation] = []
        deadline = time.monotonic() + _SETTLE
        while time.monotonic() < deadline:
            found = invariants.empty(reading.read(self._cloud))
            if not found:
                return
            time.sleep(_INTERVAL)
        self.violations += found

    def _judge(self) -> Facts:
        """Add the violations that stay; returns the facts."""
        deadline = time.monotonic() + _SETTLE
        while True:
            read = reading.read(self._cloud)
            found = invariants.check(read)
            own = [one for one in found if one.owner == invariants.PROJECT]
            if not own or time.monotonic() > deadline:
                self.violations += found
                return read
            time.sleep(_INTERVAL)

    def _vdisk_check(self) -> list[str]:
        """Return what ``openstack vdisk check`` finds."""
        done = self._cloud.attempt(
            'openstack', 'vdisk', 'check', '--format=json'
        )
        if done.returncode == 0:
            return []
        try:
            rows = json.loads(done.stdout)
        except ValueError:
            return [f'exit {done.returncode}: {done.stderr[-300:]}']
        return [json.dumps(row, sort_keys=True) for row in rows]

    def _map(self) -> list[str]:
        """Return the hosts and disks that the map calls faulty."""
        try:
            shown = self._cloud.map()
        except process.ProcessError as error:
            return [str(error)]
        return [
            json.dumps(one, sort_keys=True)
            for one in shown['findings']
            if one['kind'] != 'pending'
        ]

    def _violated(self, rule: str, subject: str, what: str) -> None:
        self.violations.append(Violation(rule, subject, what))
