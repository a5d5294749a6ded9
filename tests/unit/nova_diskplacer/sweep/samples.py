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

"""Cells, headers and results for tests."""

from nova_diskplacer.sweep import cells
from nova_diskplacer.sweep import plan
from nova_diskplacer.sweep import results

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
RUN = '5c0e9a4e-5a77-4b0e-8a90-0f0c3a1b2d33'


def make_cell(servers=0, **values):
    """Return a cell on bare metal, or in servers of one vCPU."""
    scenario = ('bare', 'server', 'servers')[min(servers, 2)]
    fields = {
        'scenario': scenario,
        'servers': servers,
        'vcpus': int(bool(servers)),
        'ram_mib': 1024 if servers else 0,
        'engine': 'async',
        'operation': 'read',
        'jobs': 1,
        'depth': 32,
        'host_scheduler': 'none',
        'guest_scheduler': 'none' if servers else '',
        'cache_mode': 'none' if servers else '',
        'read_ahead_kb': 128,
    }
    return cells.Cell(**{**fields, **values})


def make_header(planned, **values):
    """Return the header of a run of these cells."""
    fields = {
        'version': results.VERSION,
        'id': RUN,
        'host': 'compute1',
        'started': '2026-11-24T12:00:00+00:00',
        'kernel': '6.1.0',
        'fio': 'fio-3.33',
        'qemu': '7.2.0',
        'libvirt': '9.0.0',
        'nova': '2.96',
        'disk': results.Disk(DISK, 'Fake', 'hdd', 10**12, 'sda'),
        'cpus': 2,
        'memory_mib': 8192,
        'data_mib': 64,
        'seconds': 3,
        'block_kib': 64,
        'repetitions': 2,
        'emulated': False,
        'plan': tuple(planned),
    }
    return results.Header(**{**fields, **values})


def make_result(cell, repetition=0, **values):
    """Return a result of 80 MB/s."""
    fields = {
        'cell': cell,
        'repetition': repetition,
        'began': '2026-11-24T12:00:00+00:00',
        'seconds': 3.0,
        'mbps': 80.0,
        'rates': (80.0,),
        'latency_ms': 1.5,
        'serving': 0.25,
        'waiting': 0.75,
        'context_switches': 100.0,
        'cpu': {'idle': 1.0},
        'host_cpu': {'idle': 1.0},
        'problem': '',
    }
    return cells.Result(**{**fields, **values})


def make_boot(*planned):
    """Return a boot of these cells, in this order."""
    body = plan.Body.of(planned[0])
    return plan.Boot(body, tuple(plan.Item(cell, 0) for cell in planned))
