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

"""Measures cells on bare metal: in temporary space on the disk."""

import collections.abc
import contextlib
import dataclasses
import time

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import claims
from diskplacer_measure.sweep.measure import measured_disk
from diskplacer_measure.sweep.measure import outcome
from diskplacer_measure.sweep.measure import workload
from nova_diskplacer import exception
from nova_diskplacer.disks.measure import conditions
from nova_diskplacer.disks.measure import fio

Record = collections.abc.Callable[[cells.Result], None]

_SHELL = (*fio.KILLED_WITH_PARENT, 'sh', '-s')


@dataclasses.dataclass(frozen=True)
class BareMetal:
    """Measures the batches of bare metal."""

    header: results.Header
    disk: measured_disk.MeasuredDisk
    claims: claims.Claims

    def measure(
        self, batch: plan.BootBatch, timing: plan.Timing, record: Record
    ) -> plan.Timing:
        """Measure a batch, and return the timing with the times of its steps.

        :param record: called with each result.
        :raises DiskError: fio cannot be run, or the disk fails.
        """
        self.claims.hold()
        size = self.header.data_mib * workload.MIB
        cgroup = conditions.root_cgroup()
        with fio.temporary_space(
            self.disk.disk_root, self.disk.uuid, size
        ) as path:
            started = time.monotonic()
            fio.Fio(path, size, cgroup).fill()
            fill_s = time.monotonic() - started
            for repetition in batch.repetitions:
                self.disk.prepare(repetition.cell, path)
                record(self._run(repetition, path, cgroup))
                self.disk.check(repetition.cell)
        fill_mbps = size / 1e6 / max(fill_s, 0.1)
        return timing.updated(batch.target, plan.StepTimes(0, fill_mbps, 0))

    def _run(
        self, repetition: plan.Repetition, path: str, cgroup: str
    ) -> cells.Result:
        token = self.header.id
        text = workload.script(
            [workload.line(token, repetition.cell, 0)],
            token=token,
            mib=self.header.data_mib,
            kib=self.header.block_kib,
            seconds=self.header.seconds,
            device=path,
            launch=' '.join(fio.KILLED_WITH_PARENT),
        )
        started = time.time()
        finished = fio.run(_SHELL, cgroup, text)
        console = workload.parse(finished.stdout, token)
        if console.error:
            raise exception.DiskError(f'bare metal: {console.error}')
        with contextlib.suppress(KeyError):
            measured = console.measured[token]
            return outcome.combine(repetition, [measured], measured.cpu)
        return outcome.failed(
            repetition,
            started,
            console.failed.get(token)
            or f'nothing is reported: {" ".join(finished.stderr.split())}',
        )
