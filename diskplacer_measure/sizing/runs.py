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

"""Makes runs of a load, and reads the counters of a server meanwhile."""

import collections.abc
import dataclasses
import datetime
import json
import os
import random
import socket
import subprocess  # noqa: S404
import time
import typing

from diskplacer_measure.sizing import counters
from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing import samples

Load = collections.abc.Callable[[], 'Done']
Read = collections.abc.Callable[[], counters.Reading]


@dataclasses.dataclass(frozen=True)
class Run:
    """A run to make: by itself, or one of the two of a block."""

    block: int | None = None
    vcpus_are: str = ''


@dataclasses.dataclass(frozen=True)
class Done:
    """The result of a load; ``about`` is the JSON object that it printed."""

    seconds: float
    about: dict[str, typing.Any]


def plan(
    count: int, in_blocks: bool, first: int, source: random.Random
) -> list[Run]:
    """Return the runs to make, in order.

    :param count: of runs, or of blocks of a pinned and a floating run, each in
        random order.
    :param first: the number of the first block.
    """
    if not in_blocks:
        return [Run()] * count
    runs = []
    for block in range(first, first + count):
        kinds = [samples.PINNED, samples.FLOATING]
        source.shuffle(kinds)
        runs += [Run(block, kind) for kind in kinds]
    return runs


def next_block(made: collections.abc.Iterable[samples.Sample]) -> int:
    """Return a number that no block of a file has."""
    return 1 + max(
        (sample.block for sample in made if sample.block is not None),
        default=0,
    )


def make(run: Run, load: Load, read: Read) -> samples.Sample:
    """Make a run, and return it with the counters of the server.

    :raises DiskPlacerError: the load fails, or the server does not run all the
        time.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
    before = read()
    done = load()
    now = read()
    counted, missing = counters.between(before, now)
    return samples.Sample(
        started=started,
        host=socket.gethostname(),
        kernel=os.uname().release,
        server=now.server,
        vcpus=now.vcpus,
        memory_bytes=now.memory_bytes,
        seconds=done.seconds,
        counters=counted,
        missing=missing,
        block=run.block,
        vcpus_are=run.vcpus_are,
        load=done.about,
    )


def execute(command: collections.abc.Sequence[str]) -> Done:
    """Run a command; its errors go to those of this process.

    :raises SizingError: it cannot be run, or fails.
    """
    started = time.perf_counter()
    try:
        finished = subprocess.run(  # noqa: S603
            command, stdout=subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise errors.SizingError(f'{command[0]}: {error.strerror}') from error
    if finished.returncode:
        raise errors.SizingError(
            f'{" ".join(command)}: ended with {finished.returncode}'
        )
    return parse(finished.stdout, time.perf_counter() - started)


def parse(text: str, seconds: float) -> Done:
    """Return the result of a command.

    If it printed a JSON object with a number ``seconds``, that is the running
    time, and the object is about the load.

    :param seconds: the running time of the command.
    """
    try:
        about = json.loads(text)
        # the file of runs cannot hold numbers that are not finite
        json.dumps(about, allow_nan=False)
        own = about['seconds']
    except (KeyError, TypeError, ValueError):
        return Done(seconds, {})
    if isinstance(own, bool) or not isinstance(own, (int, float)) or own <= 0:
        return Done(seconds, {})
    return Done(float(own), about)
