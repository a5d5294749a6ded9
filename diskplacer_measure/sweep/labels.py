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


"""Labels of cells, targets, shapes and durations, for people."""

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan

ENGINES = {
    'sync_direct': 'direct',
    'sync_cached': 'page cache',
    'async': 'asynchronous',
}

#: What stands for the schedulers of the papers.
SCHEDULERS = {'bfq': 'CFQ', 'mq-deadline': 'deadline', 'none': 'noop'}


def scheduler(name: str) -> str:
    """Return a scheduler with the one of the papers that it stands for."""
    stands_for = SCHEDULERS.get(name)
    return f'{name} ({stands_for})' if stands_for else name


def shape(vcpus: int, ram_mib: int) -> str:
    """Return a server's shape, with the memory in GiB or MiB."""
    memory = (
        f'{ram_mib // 1024} GiB' if ram_mib % 1024 == 0 else f'{ram_mib} MiB'
    )
    return f'{_count(vcpus, "vCPU")}, {memory}'


def place(target: cells.Cell | plan.Target, numbered: bool = True) -> str:
    """Return the place of fio: bare metal, or servers of a shape.

    :param numbered: name the number of several servers.
    """
    if target.scenario == 'bare':
        return 'Bare metal'
    servers = 'One server'
    if target.scenario == 'servers':
        servers = f'{target.servers if numbered else "Several"} servers'
    return f'{servers}, {shape(target.vcpus, target.ram_mib)}'


def cell(settings: cells.Cell) -> str:
    """Return the settings of a cell."""
    depth = ''
    if settings.engine == 'async':
        depth = f', {settings.depth} in flight'
    return (
        f'{place(settings)}, {settings.operation} {ENGINES[settings.engine]}, '
        f'{_count(settings.threads, "thread")}{depth}, '
        f'{scheduler(settings.host_scheduler)}'
    )


def duration(seconds: float) -> str:
    """Return a duration in hours and minutes."""
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f'{minutes} min'
    return f'{minutes // 60} h {minutes % 60} min'


def _count(number: int, noun: str) -> str:
    return f'{number} {noun}{"s" if number != 1 else ""}'
