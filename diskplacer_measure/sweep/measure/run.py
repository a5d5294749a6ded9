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

"""Runs a sweep: measures repetitions without a result, batch by batch."""

import collections.abc
import dataclasses
import typing

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import labels
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep.measure import bare
from diskplacer_measure.sweep.measure import outcome

#: Measurements of a repetition that does not end in its window, at most.
ATTEMPTS = 3


class Measurer(typing.Protocol):
    """Measures batches: of bare metal, or of servers."""

    def measure(
        self, batch: plan.BootBatch, timing: plan.Timing, record: bare.Record
    ) -> plan.Timing:
        """Measure a batch, and return the timing with its step times."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A run; ``write_progress`` gets lines of progress."""

    run: results.Run
    writer: results.Writer
    measurers: collections.abc.Mapping[bool, Measurer]
    write_progress: collections.abc.Callable[[str], None]

    def measure(self, timing: plan.Timing) -> list[cells.Result]:
        """Measure all repetitions that have no final result.

        Those that do not end in their windows are repeated at the end, with
        more time, so that each is measured at most ``ATTEMPTS`` times.

        :returns: the results that have a problem after that.
        :raises DiskPlacerError: nothing can be measured any more.
        """
        pending = remaining(self.run)
        unfinished: list[cells.Result] = []
        for attempt in range(ATTEMPTS):
            unfinished, timing = self._measure(pending, attempt, timing)
            pending = [
                plan.Repetition(result.cell, result.repetition)
                for result in unfinished
            ]
            timing = dataclasses.replace(timing, patience=2 * timing.patience)
        return unfinished

    def _measure(
        self,
        pending: collections.abc.Sequence[plan.Repetition],
        attempt: int,
        timing: plan.Timing,
    ) -> tuple[list[cells.Result], plan.Timing]:
        header = self.run.header
        limits = plan.Limits(header.data_mib, header.seconds)
        batches = plan.batches(pending, f'{header.id} {attempt}')
        unfinished = []
        measured = 0

        def record(result: cells.Result) -> None:
            nonlocal measured
            measured += 1
            self.writer.append(result)
            if not outcome.is_final(result):
                unfinished.append(result)
            self.write_progress(
                f'{measured} of {len(pending)}: {labels.cell(result.cell)}: '
                + (result.problem or f'{result.mbps:.1f} MB/s')
            )

        for index, batch in enumerate(batches):
            left_s = plan.duration(batches[index:], timing, limits)
            self.write_progress(
                f'{labels.place(batch.target)}: {len(batch.repetitions)} '
                f'cells; about {labels.duration(left_s)} left'
            )
            measurer = self.measurers[bool(batch.target.servers)]
            timing = measurer.measure(batch, timing, record)
        return unfinished, timing


def remaining(run: results.Run) -> list[plan.Repetition]:
    """Return the repetitions of a run without a final result."""
    final = {
        plan.Repetition(result.cell, result.repetition)
        for result in run.results
        if outcome.is_final(result)
    }
    return [
        repetition
        for repetition in plan.repetitions_of(
            run.header.plan, run.header.repetitions
        )
        if repetition not in final
    ]
