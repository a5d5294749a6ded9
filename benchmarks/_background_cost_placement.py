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

"""Requests to Placement by nova-compute and by the agent, counted.

Both are real, in one process with a real Placement each; disks are made up.
Prints the figures of one of them as JSON.
"""

import contextlib
import json
import sys
import threading
import time
import uuid

DISKS = 12


class Counter:
    """Counts requests."""

    def __init__(self):
        self.count = 0

    def during(self, work):
        """Return how many there were while ``work`` was done."""
        before = self.count
        work()
        return self.count - before


def nova_compute():
    """Return what nova-compute asks in its periodic task and for a server."""
    # it decides how Nova runs its threads
    import tests.functional.nova  # noqa: F401,I001

    import fixtures
    from nova.scheduler.client import report as clients

    from nova_diskplacer.agent import placement_sync
    from tests.functional.agent import base as agent
    from tests.functional.nova import base
    from tests.functional.nova import test_providers

    figures = {}

    class Measured(base.CloudTestCase):
        hosts_count = 0

        def runTest(self):
            self.start_host('host0')
            counter = Counter()
            for name in ('get', 'put', 'post', 'delete'):
                self.useFixture(
                    fixtures.MockPatchObject(
                        clients.SchedulerReportClient,
                        name,
                        counted(
                            getattr(clients.SchedulerReportClient, name),
                            counter,
                        ),
                    )
                )
            self.measure('no_disks', counter)
            disks = self.useFixture(agent.Disks())
            for _ in range(DISKS):
                disks.add()
            placement_sync.PlacementSync(
                test_providers.client(self.placement.fixture), 'host0'
            ).reconcile(disks.all())
            self.measure(f'{DISKS}_disks', counter)

        def measure(self, what, counter):
            report_client = self.computes['host0'].manager.rt.reportclient
            periodic = self._run_periodics
            # the first writes what it finds
            periodic()

            def refreshed():
                report_client._association_refresh_time.clear()
                periodic()

            figures[f'nova_compute_refresh_{what}'] = counter.during(refreshed)
            figures[f'nova_compute_periodic_{what}'] = counter.during(periodic)
            plain = self._create_flavor(
                memory_mb=512, vcpu=1, disk=1, ephemeral=0
            )

            def build():
                self.server = self.boot(plain)

            figures[f'nova_build_{what}'] = counter.during(build)
            self._delete_server(self.server)

    result = Measured('runTest').run()
    problems = [*result.errors, *result.failures]
    if problems:
        raise SystemExit(problems[0][1])
    return figures


def counted(function, counter):
    """Return a method that counts its calls."""

    def call(*arguments, **keywords):
        counter.count += 1
        return function(*arguments, **keywords)

    return call


def agent(seconds):
    """Return what a whole agent with default options asks in a minute."""
    from nova_diskplacer.placement import client as placement_client
    from tests.functional.agent import base

    figures = {}

    class Measured(base.AgentTestCase):
        def runTest(self):
            options = (
                'report_interval',
                'idle_interval',
                'heartbeat_interval',
                'watch_interval',
            )
            for name in options:
                self.conf.clear_override(name, 'diskplacer_agent')
            self.placement.start_compute()
            uuids = [self.disks.add() for _ in range(DISKS)]
            self.start_agent()
            self.wait_for(lambda: self.health(uuids[0]) == 'ok')
            # it asks often for a while after a change
            time.sleep(1.5 * self.conf.diskplacer_agent.idle_interval)
            figures['agent_idle_per_minute'] = self.per_minute(seconds)
            stop = threading.Event()
            busy = threading.Thread(target=self.change, args=(uuids, stop))
            busy.start()
            figures['agent_busy_per_minute'] = self.per_minute(seconds)
            stop.set()
            busy.join()

        def per_minute(self, seconds):
            before = len(self.placement.requests)
            time.sleep(seconds)
            return (len(self.placement.requests) - before) * 60 / seconds

        def change(self, uuids, stop):
            """Claim and bind a vdisk on another disk every ten seconds."""
            for disk in uuids * 100:
                server = str(uuid.uuid4())
                self.placement.claim(server, {disk: {placement_client.GB: 1}})
                self.disks.hold(disk, server, size_gb=1)
                if stop.wait(10):
                    return

    result = Measured('runTest').run()
    problems = [*result.errors, *result.failures]
    if problems:
        raise SystemExit(problems[0][1])
    return figures


if __name__ == '__main__':
    with contextlib.redirect_stdout(sys.stderr):
        found = (
            nova_compute()
            if sys.argv[1] == 'nova-compute'
            else agent(float(sys.argv[2]))
        )
    print(json.dumps(found))
