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
    """Measures the boots without servers."""

    header: results.Header
    disk: measured_disk.MeasuredDisk
    claims: claims.Claims

    def measure(
        self, boot: plan.Boot, timing: plan.Timing, record: Record
    ) -> plan.Timing:
        """Measure the cells of a boot, and return what its steps took.

        :param record: called with each result.
        :raises DiskError: fio cannot be run, or the disk fails.
        """
        self.claims.hold()
        size = self.header.data_mib * workload.MIB
        cgroup = conditions.root_cgroup()
        with fio.temporary_space(
            self.disk.disk_root, self.disk.uuid, size
        ) as path:
            begun = time.monotonic()
            fio.Fio(path, size, cgroup).fill()
            taken = time.monotonic() - begun
            for item in boot.items:
                self.disk.prepare(item.cell, path)
                record(self._run(item, path, cgroup))
                self.disk.check(item.cell)
        filled = size / 1e6 / max(taken, 0.1)
        return timing.learned(boot.body, plan.Pace(0, filled, 0))

    def _run(self, item: plan.Item, path: str, cgroup: str) -> cells.Result:
        token = self.header.id
        text = workload.script(
            [workload.line(token, item.cell, 0)],
            token=token,
            mib=self.header.data_mib,
            kib=self.header.block_kib,
            seconds=self.header.seconds,
            device=path,
            launch=' '.join(fio.KILLED_WITH_PARENT),
        )
        begun = time.time()
        done = fio.run(_SHELL, cgroup, text)
        printed = workload.parse(done.stdout, token)
        if printed.error:
            raise exception.DiskError(f'bare metal: {printed.error}')
        with contextlib.suppress(KeyError):
            one = printed.measured[token]
            return outcome.combine(item, [one], one.cpu)
        return outcome.failed(
            item,
            begun,
            printed.failed.get(token)
            or f'nothing is reported: {" ".join(done.stderr.split())}',
        )
