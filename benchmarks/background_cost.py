#!/usr/bin/env python3
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

"""What the disks of a cloud cost while nobody asks for a server.

Per host with 12 disks: the requests to Placement by nova-compute and by the
agent, idle and busy, counted with the real code of both and of Placement.

Per nova-scheduler worker: CPU time for the reports of 1,000 and 10,000 hosts,
measured at the rate at which they come, and the memory for 10,000 hosts. In
RabbitMQ, a real one: what the queue of a worker that was killed takes, for how
long, and which queues are left behind.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import _background_cost_bus as bus
import _report
from nova_diskplacer.conf import agent as options

HERE = pathlib.Path(__file__).parent

GOALS = (
    _report.Goal('agent_idle_per_minute', '<=', 3),
    _report.Goal('worker_core_share_1000_hosts', '<=', 0.02),
    _report.Goal('worker_core_share_10000_hosts', '<=', 0.15),
    _report.Goal('dead_queue_gone_seconds', '<=', 120),
    _report.Goal('queues_left_by_workers', '<=', 0),
)

# The queues that all workers share, which stay as long as RabbitMQ does.
SHARED = {'diskplacer_reports', 'diskplacer_reports.all'}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument(
        '--seconds',
        type=float,
        default=120,
        help='time for which the requests of the agent, idle and busy, and '
        'the CPU time for reports are measured (default: %(default)s)',
    )
    parser.add_argument('--json', metavar='FILE', help='write figures there')
    args = parser.parse_args()
    figures = {
        **placement('nova-compute'),
        **placement('agent', str(args.seconds)),
        **workers(args.seconds),
    }
    _report.table(
        ('Figure', 'Value'),
        [(name, f'{value:.4g}') for name, value in figures.items()],
    )
    _report.show_goals(figures, GOALS)
    if args.json:
        _report.write(args.json, 'background_cost', figures, GOALS)


def placement(*arguments):
    """Count requests to Placement in a process of its own."""
    program = HERE / '_background_cost_placement.py'
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={
            **os.environ,
            'PYTHONPATH': os.pathsep.join(
                [str(HERE.parent), os.environ.get('PYTHONPATH', '')]
            ),
            'OS_NOVA_DISABLE_EVENTLET_PATCHING': 'true',
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    if arguments[0] == 'nova-compute':
        for what in ('no_disks', f'{bus.DISKS}_disks'):
            # once a minute, by default; every fifth time it refreshes
            often = found[f'nova_compute_periodic_{what}']
            seldom = found[f'nova_compute_refresh_{what}']
            found[f'nova_compute_per_minute_{what}'] = (4 * often + seldom) / 5
    return found


def default(name):
    """Return the default of an option of the agent."""
    return next(one.default for one in options.OPTS if one.name == name)


def workers(seconds):
    """Measure workers beside a RabbitMQ of their own."""
    figures = {}
    interval = default('heartbeat_interval')
    with bus.rabbitmq() as (url, queues):
        for hosts in (1000, 10000):
            worker = bus.Worker(url, hosts)
            agents = bus.Agents(url, hosts)
            # the first take longer
            worker.cpu(50, lambda a=agents: a.confirm(50))
            number = round(hosts * seconds / interval)
            spent = worker.cpu(
                number, lambda a=agents, n=number: a.confirm(n, seconds)
            )
            figures[f'worker_core_share_{hosts}_hosts'] = spent / seconds
            figures[f'worker_mib_{hosts}_hosts'] = worker.memory / (1 << 20)
            if hosts == 1000:
                for kind, send in (
                    ('heartbeat', agents.confirm),
                    ('report', agents.report),
                ):
                    spent = worker.cpu(1000, lambda s=send: s(1000))
                    figures[f'worker_ms_per_{kind}'] = spent
            worker.end()
            no_fanout(queues)
            if hosts == 1000:
                figures |= dead(url, queues, agents)
        left = {
            name for name in queues() if name.startswith('diskplacer_reports')
        }
    figures['queues_left_by_workers'] = len(left - SHARED)
    return figures


def fanout(queues):
    """Return the queues of workers, alive or dead."""
    return [
        queue
        for name, queue in queues().items()
        if name.startswith('diskplacer_reports_fanout_')
    ]


def no_fanout(queues):
    """Return the time in seconds until there is no such queue any more."""
    began = time.monotonic()
    while fanout(queues) and time.monotonic() < began + 300:
        time.sleep(1)
    return time.monotonic() - began


def dead(url, queues, agents):
    """Kill a worker, and look at its queue."""
    figures = {}
    for kind, send in (
        ('heartbeat', agents.confirm),
        ('report', agents.report),
    ):
        worker = bus.Worker(url, 1)
        worker.end(signal.SIGKILL)
        killed = time.monotonic()
        (before,) = fanout(queues)
        send(1000)
        while (after := fanout(queues))[0]['messages'] < 1000:
            if time.monotonic() > killed + 45:
                raise RuntimeError(f'RabbitMQ has {after} of 1000 messages')
        # the text of messages is not in the memory of the queue
        figures[f'dead_queue_bytes_per_{kind}'] = (
            after[0]['memory'] - before['memory'] + after[0]['message_bytes']
        ) / 1000
        no_fanout(queues)
        figures['dead_queue_gone_seconds'] = time.monotonic() - killed
    figures['dead_queue_mib_10000_hosts'] = (
        figures['dead_queue_bytes_per_heartbeat']
        * figures['dead_queue_gone_seconds']
        * 10000
        / default('heartbeat_interval')
        / (1 << 20)
    )
    return figures


if __name__ == '__main__':
    main()
