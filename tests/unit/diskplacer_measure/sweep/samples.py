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

from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from tests.unit.diskplacer_measure.sweep import example

DISK = '0b5dfdb6-1c5c-4ac7-8f2c-3a8b0c1f0d11'
RUN = '5c0e9a4e-5a77-4b0e-8a90-0f0c3a1b2d33'


def make_cell(servers=0, **values):
    """Return a cell on bare metal, or in servers of one vCPU."""
    fields = {'depth': 32, 'host_scheduler': 'none', **values}
    if not servers:
        return example.bare(**fields)
    scenario = 'server' if servers == 1 else 'servers'
    return example.cell(
        **{
            'scenario': scenario,
            'servers': servers,
            'vcpus': 1,
            'ram_mib': 1024,
            **fields,
        }
    )


def make_header(planned, **values):
    """Return the header of a run of these cells."""
    fields = {
        'id': RUN,
        'disk': results.Disk(DISK, 'Fake', 'hdd', 10**12, 'sda'),
        'data_mib': 64,
        'seconds': 3,
        'block_kib': 64,
        'repetitions': 2,
    }
    return example.header(planned, **{**fields, **values})


def make_result(cell, repetition=0, **values):
    """Return a result of 80 MB/s."""
    return example.result(cell, repetition, 80.0, **values)


def make_batch(*planned):
    """Return a batch of these cells, in this order."""
    target = plan.Target.of(planned[0])
    return plan.BootBatch(
        target, tuple(plan.Repetition(cell, 0) for cell in planned)
    )
