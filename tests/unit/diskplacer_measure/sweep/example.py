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

"""Sweeps that nobody has measured: made up by formulas, with noise."""

import datetime
import random

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import results

STARTED = datetime.datetime(2026, 11, 20, 9, 0, tzinfo=datetime.UTC)

SHAPES = ((1, 1024), (2, 4096), (4, 8192))
THREADS = (1, 4, 16)
ALL_SCHEDULERS = ('bfq', 'mq-deadline', 'none')


def cell(**fields):
    """Return a cell of one server of 2 vCPUs, but for some fields."""
    return cells.Cell(
        **{
            'scenario': 'server',
            'servers': 1,
            'vcpus': 2,
            'ram_mib': 4096,
            'engine': 'async',
            'operation': 'read',
            'jobs': 1,
            'depth': 1 if fields.get('engine', 'async') != 'async' else 256,
            'host_scheduler': 'mq-deadline',
            'guest_scheduler': 'none',
            'cache_mode': 'none',
            'read_ahead_kb': 128,
            **fields,
        }
    )


def bare(**fields):
    """Return a cell of bare metal."""
    return cell(
        **{
            'scenario': 'bare',
            'servers': 0,
            'vcpus': 0,
            'ram_mib': 0,
            'guest_scheduler': '',
            'cache_mode': '',
            **fields,
        }
    )


def result(of, repetition, mbps, problem='', **fields):
    """Return a result, of which all threads have the same share."""
    return cells.Result(
        **{
            'cell': of,
            'repetition': repetition,
            'began': STARTED.isoformat(),
            'seconds': 6.0,
            'mbps': mbps,
            'rates': (mbps / of.threads,) * of.threads,
            'latency_ms': 3.0,
            'serving': 0.1,
            'waiting': 0.9,
            'context_switches': 900.0,
            'cpu': {'user': 0.1, 'idle': 0.9},
            'host_cpu': {'user': 0.1, 'idle': 0.9},
            'problem': problem,
            **fields,
        }
    )


def header(plan, **fields):
    return results.Header(
        **{
            'version': results.VERSION,
            'id': '6f1c0f0e-6a55-4c6e-9c57-2f2f60a9c001',
            'host': 'compute-1',
            'started': STARTED.isoformat(),
            'kernel': '6.12.48',
            'fio': '3.39',
            'qemu': '10.0.2',
            'libvirt': '11.3.0',
            'nova': '33.0.0',
            'disk': results.Disk(
                '0b5d2f6c-0000-4000-8000-000000000001',
                'ST91000640SS',
                'hdd',
                10**12,
                'sda',
            ),
            'cpus': 16,
            'memory_mib': 131072,
            'data_mib': 4096,
            'seconds': 60,
            'block_kib': 16,
            'repetitions': 5,
            'emulated': False,
            'plan': tuple(plan),
            **fields,
        }
    )


def grid():
    """Return cells as those of P0, Figures 3 and 4."""
    plan = []
    for engine in cells.ENGINES:
        schedulers = (
            ALL_SCHEDULERS if engine == 'async' else ALL_SCHEDULERS[1:2]
        )
        for operation in cells.OPERATIONS:
            for scheduler in schedulers:
                load = {
                    'engine': engine,
                    'operation': operation,
                    'host_scheduler': scheduler,
                }
                for jobs in THREADS:
                    plan.append(bare(jobs=jobs, **load))
                    plan += [
                        cell(vcpus=vcpus, ram_mib=ram, jobs=jobs, **load)
                        for vcpus, ram in SHAPES
                    ]
                plan += [
                    cell(
                        scenario='servers',
                        servers=servers,
                        vcpus=1,
                        ram_mib=1024,
                        **load,
                    )
                    for servers in THREADS[1:]
                ]
    return plan


def mbps(one):
    """Return a throughput of which the papers' claims are true, mostly."""
    rate = 110.0
    servers = one.scenario != 'bare'
    if one.engine == 'async':
        friendly = one.host_scheduler != 'bfq'
        if one.operation == 'write':
            rate = 112 if friendly or not servers else 85
        elif not servers:
            rate *= one.threads ** (-0.5 if friendly else -0.03)
        elif not friendly:
            rate *= 0.95 * one.threads**-0.3
        elif one.servers > 1:
            rate = 20 + one.servers
        elif one.vcpus < 4:
            rate *= one.threads**-0.35
    else:
        rate *= 0.7 * one.threads**0.1
        if one.engine == 'sync_direct':
            rate *= 0.45 if servers else 0.9
        elif one.operation == 'write':
            rate *= 1 + one.ram_mib / 65536
    return rate


def run(
    plan=None, throughput=mbps, noise=0.04, seed=1, spoiled=None, **fields
):
    """Return a run whose repetitions differ as the noise tells.

    :param spoiled: says which cells are bound by the CPU.
    """
    plan = grid() if plan is None else plan
    draw = random.Random(seed)
    described = header(plan, **fields)
    found = []
    for repetition in range(described.repetitions):
        for one in plan:
            rate = throughput(one) * draw.lognormvariate(0, noise)
            shares = [draw.lognormvariate(0, 0.05) for _ in range(one.threads)]
            rates = tuple(rate * share / sum(shares) for share in shares)
            busy = 0.04 + 0.02 * one.threads
            found.append(
                result(
                    one,
                    repetition,
                    rate,
                    'bound by the CPU' if spoiled and spoiled(one) else '',
                    rates=rates,
                    serving=busy,
                    waiting=1 - busy,
                    context_switches=400.0 * one.threads,
                )
            )
    return results.Run(described, tuple(found))
