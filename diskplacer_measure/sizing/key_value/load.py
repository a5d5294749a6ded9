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

"""Runs a mix of operations by one or more clients, and takes the times."""

import array
import collections.abc
import dataclasses
import random
import threading
import time
import typing

from diskplacer_measure.sizing import errors
from diskplacer_measure.sizing.key_value import latencies
from diskplacer_measure.sizing.key_value import mixes

# Seconds between two reports of progress.
_INTERVAL = 1.0


class Store(typing.Protocol):
    """A connection of one client."""

    def read(self, key: int) -> None:
        """Read a record."""

    def update(self, key: int, source: random.Random) -> None:
        """Write a part of a record."""

    def close(self) -> None:
        """Close the connection."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A load: a number of operations, divided over the clients.

    ``reads`` is the part of reads.
    """

    reads: float
    records: int
    operations: int
    clients: int
    seed: int


@dataclasses.dataclass(frozen=True)
class Result:
    """A run; ``seconds`` is from the first operation to the end of the last.

    ``client_cpu`` is the CPU time of this process by the running time. The
    clients share one CPU: near 1 they were slower than the store.
    """

    seconds: float
    client_cpu: float
    latencies: dict[str, latencies.Latencies]


class _Client(threading.Thread):
    """A client with a connection of its own."""

    def __init__(
        self,
        store: Store,
        reads: float,
        records: int,
        count: int,
        seed: str,
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self._store = store
        self._stop_all = stop
        self._source = random.Random(seed)  # noqa: S311
        self._operations = mixes.operations(
            reads, records, count, self._source
        )
        self.times: dict[str, array.array[float]] = {
            # 8 bytes for each operation
            mixes.READ: array.array('d'),
            mixes.UPDATE: array.array('d'),
        }
        self.error: BaseException | None = None

    @property
    def done(self) -> int:
        """The number of operations so far."""
        return sum(map(len, self.times.values()))

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 raised by run()
            self.error = error
            self._stop_all.set()

    def _run(self) -> None:
        for kind, key in self._operations:
            if self._stop_all.is_set():
                return
            started = time.perf_counter()
            if kind == mixes.READ:
                self._store.read(key)
            else:
                self._store.update(key, self._source)
            self.times[kind].append(time.perf_counter() - started)


def run(
    plan: Plan,
    connect: collections.abc.Callable[[], Store],
    progress: collections.abc.Callable[[int], None],
) -> Result:
    """Run a plan; all connections are made before, and closed at the end.

    The operations of a seed are the same in each run.

    :param connect: makes a connection for a client.
    :param progress: called with the number of operations, each second.
    :raises SizingError: the store fails; the other clients stop.
    """
    if plan.operations < plan.clients:
        raise errors.SizingError(
            f'--operations {plan.operations} is below --clients {plan.clients}'
        )
    stop = threading.Event()
    stores: list[Store] = []
    try:
        for _ in range(plan.clients):
            stores.append(connect())
        clients = [
            _Client(
                store,
                plan.reads,
                plan.records,
                _part(plan.operations, plan.clients, number),
                f'{plan.seed}-{number}',
                stop,
            )
            for number, store in enumerate(stores)
        ]
        return _measure(clients, stop, progress)
    finally:
        for store in stores:
            store.close()


def _part(operations: int, clients: int, number: int) -> int:
    return operations // clients + (number < operations % clients)


def _measure(
    clients: list[_Client],
    stop: threading.Event,
    progress: collections.abc.Callable[[int], None],
) -> Result:
    cpu, started = time.process_time(), time.perf_counter()
    for client in clients:
        client.start()
    try:
        for client in clients:
            while client.is_alive():
                client.join(_INTERVAL)
                progress(sum(client.done for client in clients))
    finally:
        stop.set()
        for client in clients:
            client.join()
    seconds = time.perf_counter() - started
    for client in clients:
        if client.error is not None:
            raise client.error
    progress(sum(client.done for client in clients))
    by_kind = {
        kind: latencies.summarize(
            value for client in clients for value in client.times[kind]
        )
        for kind in (mixes.READ, mixes.UPDATE)
    }
    return Result(
        seconds=seconds,
        client_cpu=(time.process_time() - cpu) / seconds,
        latencies={
            kind: summary for kind, summary in by_kind.items() if summary
        },
    )
