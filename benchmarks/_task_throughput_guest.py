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

"""Runs in the guest: the tasks of contention, and what each reads in a second.

``python _task_throughput_guest.py JSON`` prints, for each run and device, the
MB/s of each task in each second.
"""

import contextlib
import itertools
import json
import sys
import threading
import time
import typing

import _contention_guest as guest
import _project_shares_guest as shares

# The seconds since the begin, and the bytes of each task by then.
Sample = tuple[float, list[int]]


def runs(settings: guest.Settings) -> list[dict[str, list[list[float]]]]:
    """Return the MB/s of each run, by device, task and second."""
    found = []
    with (
        guest.cgroups(settings['uuids'], len(settings['sizes'])) as homes,
        guest.fio_readers(settings, homes) as read,
    ):
        for agent in settings['agents']:
            with sampled(homes) as samples:
                guest.run_tasks(settings, homes, read, agent)
            found.append(
                {device: rates(some) for device, some in samples.items()}
            )
    return found


@contextlib.contextmanager
def sampled(homes: guest.Homes) -> typing.Iterator[dict[str, list[Sample]]]:
    """Sample the counters of all cgroups each second meanwhile."""
    found: dict[str, list[Sample]] = {device: [] for device in homes}
    stopped = threading.Event()

    def sample() -> None:
        began = time.monotonic()
        while True:
            for device, paths in homes.items():
                number = guest.number(device)
                counts = [shares.rbytes(path, number) for path in paths]
                found[device].append((time.monotonic() - began, counts))
            rest = 1 - (time.monotonic() - began) % 1
            if stopped.wait(rest):
                return

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        stopped.set()
        thread.join()


def rates(samples: list[Sample]) -> list[list[float]]:
    """Return the MB/s of each task between samples.

    They begin with the first one in which a task has read, and end with the
    last one.
    """
    found = []
    for (begin, before), (end, after) in itertools.pairwise(samples):
        found.append(
            [
                (now - then) / (end - begin) / 1e6
                for then, now in zip(before, after, strict=True)
            ]
        )
    reads = [number for number, one in enumerate(found) if any(one)]
    whole = found[reads[0] : reads[-1] + 1] if reads else []
    return [list(task) for task in zip(*whole, strict=True)]


def main() -> None:
    print(json.dumps(runs(json.loads(sys.argv[1]))))


if __name__ == '__main__':
    main()
