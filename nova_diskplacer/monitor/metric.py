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

"""A metric for Prometheus."""

import collections.abc
import dataclasses
from typing import Any

COUNTER = 'counter'
GAUGE = 'gauge'
INFO = 'info'

AGENT = ('host',)
DISK = ('host', 'disk')
SERVER = ('host', 'server', 'project')
SERVER_ON_DISK = (*SERVER, 'disk')

_UNITS = ('bytes', 'seconds', 'bytes_per_second', 'ratio', 'celsius', 'joules')

Samples = collections.abc.Iterable[tuple[tuple[str, ...], float]]


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric; its samples are the values of ``labels`` and a number.

    The number of an ``INFO`` is always 1. ``name`` lacks the prefix
    ``diskplacer_`` and the suffix ``_total`` or ``_info``. ``samples`` takes
    the status that the metric is of.
    """

    kind: str
    name: str
    text: str
    labels: tuple[str, ...]
    samples: collections.abc.Callable[[Any], Samples]

    @property
    def unit(self) -> str:
        """The unit, with which the name ends, '' if it has none."""
        ends = (unit for unit in _UNITS if self.name.endswith(f'_{unit}'))
        return next(ends, '')

    @property
    def full_name(self) -> str:
        """The name in Prometheus."""
        suffix = {COUNTER: '_total', INFO: '_info'}.get(self.kind, '')
        return f'diskplacer_{self.name}{suffix}'


def of_agent(
    kind: str,
    name: str,
    text: str,
    value: collections.abc.Callable[[Any], float],
) -> Metric:
    """Return a metric with one sample for the host.

    :param value: takes the status, which has a ``host``.
    """
    return Metric(
        kind,
        name,
        text,
        AGENT,
        lambda state: [((state.host,), value(state))],
    )


def of_disks(
    kind: str,
    name: str,
    text: str,
    figure: collections.abc.Callable[[Any], float | None],
) -> Metric:
    """Return a metric with a sample for each disk.

    :param figure: takes a disk of the status; None for no sample.
    """

    def samples(state: Any) -> Samples:
        for disk in state.disks or ():
            value = figure(disk)
            if value is not None:
                yield (state.host, disk.uuid), value

    return Metric(kind, name, text, DISK, samples)
