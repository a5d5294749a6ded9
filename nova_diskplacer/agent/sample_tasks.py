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

"""Repeats tasks on the last sample of the I/O loop, each in its own thread."""

import collections.abc
import functools
import threading
import typing

from nova_diskplacer.host import retry_logger
from nova_diskplacer.monitor import types

# Seconds between two checks for the first sample.
_FIRST_SAMPLE_PAUSE = 0.2

#: Returns the last sample, None before the first.
LastSample = collections.abc.Callable[[], types.Sample | None]


class SampleTask(typing.NamedTuple):
    """A task that is repeated after ``interval`` seconds.

    ``subject`` is what messages name when it fails.
    """

    interval: float
    subject: str
    run: collections.abc.Callable[[types.Sample], None]


def start(
    tasks: collections.abc.Iterable[SampleTask],
    last_sample: LastSample,
    stopped: threading.Event,
) -> None:
    """Start a thread for each task; they end when ``stopped`` is set."""
    for task in tasks:
        threading.Thread(
            target=repeat, args=(task, last_sample, stopped), daemon=True
        ).start()


def repeat(
    task: SampleTask, last_sample: LastSample, stopped: threading.Event
) -> None:
    """Repeat a task until ``stopped`` is set, from the first sample on."""
    retry = retry_logger.RetryLogger(
        f'{task.subject} cannot be checked',
        f'{task.subject} is checked again',
    )
    while not stopped.is_set():
        sample = last_sample()
        if sample is None:
            stopped.wait(_FIRST_SAMPLE_PAUSE)
            continue
        retry.run(functools.partial(task.run, sample))
        stopped.wait(task.interval)
