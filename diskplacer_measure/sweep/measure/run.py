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

"""Runs a sweep: measures what has no result yet, boot by boot."""

import collections.abc
import dataclasses
import typing

from diskplacer_measure.sweep import cells
from diskplacer_measure.sweep import plan
from diskplacer_measure.sweep import results
from diskplacer_measure.sweep import words
from diskplacer_measure.sweep.measure import bare
from diskplacer_measure.sweep.measure import outcome

#: How often a cell is measured that cannot be in its time.
ATTEMPTS = 3


class Measurer(typing.Protocol):
    """Measures the cells of a boot: bare metal, or servers."""

    def measure(
        self, boot: plan.Boot, timing: plan.Timing, record: bare.Record
    ) -> plan.Timing:
        """Measure them, and return what the steps took."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A run; ``say`` gets lines of progress."""

    run: results.Run
    writer: results.Writer
    measurers: collections.abc.Mapping[bool, Measurer]
    say: collections.abc.Callable[[str], None]

    def measure(self, timing: plan.Timing) -> list[cells.Result]:
        """Measure all that has no result; return the last results.

        What could not be measured in its time is repeated at the end, with
        more time, so that each cell is measured at most ``ATTEMPTS`` times.

        :returns: those that have a problem all the same.
        :raises DiskPlacerError: nothing can be measured any more.
        """
        pending = remaining(self.run)
        unfinished: list[cells.Result] = []
        for attempt in range(ATTEMPTS):
            unfinished, timing = self._measure(pending, attempt, timing)
            pending = [
                plan.Item(one.cell, one.repetition) for one in unfinished
            ]
            timing = dataclasses.replace(timing, patience=2 * timing.patience)
        return unfinished

    def _measure(
        self,
        pending: collections.abc.Sequence[plan.Item],
        attempt: int,
        timing: plan.Timing,
    ) -> tuple[list[cells.Result], plan.Timing]:
        header = self.run.header
        limits = plan.Limits(header.data_mib, header.seconds)
        boots = plan.boots(pending, f'{header.id} {attempt}')
        unfinished = []
        measured = 0

        def record(result: cells.Result) -> None:
            nonlocal measured
            measured += 1
            self.writer.append(result)
            if not outcome.is_final(result):
                unfinished.append(result)
            self.say(
                f'{measured} of {len(pending)}: {words.cell(result.cell)}: '
                + (result.problem or f'{result.mbps:.1f} MB/s')
            )

        for index, boot in enumerate(boots):
            left = plan.duration(boots[index:], timing, limits)
            self.say(
                f'{words.place(boot.body)}: {len(boot.items)} cells; about '
                f'{words.duration(left)} left'
            )
            measurer = self.measurers[bool(boot.body.servers)]
            timing = measurer.measure(boot, timing, record)
        return unfinished, timing


def remaining(run: results.Run) -> list[plan.Item]:
    """Return the items of a run that have no result, or none that is final."""
    final = {
        plan.Item(result.cell, result.repetition)
        for result in run.results
        if outcome.is_final(result)
    }
    return [
        item
        for item in plan.items_of(run.header.plan, run.header.repetitions)
        if item not in final
    ]
