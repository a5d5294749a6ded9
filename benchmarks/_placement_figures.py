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

"""Figures of runs of the placement simulation."""

import collections.abc
import statistics
import typing

import numpy as np

import _placement_fleet as fleets
import _placement_loads as loads
import _placement_simulation as simulation_
import _report
from diskplacer_measure import stats
from nova_diskplacer.mapping import base


class Run(typing.NamedTuple):
    """Figures of a policy with one seed.

    Shares of the requests that are accepted, from 0 to 1: of their GiB, of
    all, of the wide ones, and of those with the most GiB. ``neighbours`` is
    how many other vdisks are on the disk of a mean vdisk, ``neighbours_p95``
    what 5 % of the vdisks exceed. ``gib_cv`` is the standard deviation of the
    committed shares of the disks, divided by their mean, and ``vcpus_cv``
    that of the claimed vCPUs of the hosts.
    """

    gib: float
    requests: float
    wide: float
    widest: float
    neighbours: float
    neighbours_p95: float
    gib_cv: float
    vcpus_cv: float


def of_policy(
    mix: loads.Mix,
    shape: fleets.Shape,
    arrivals: loads.Arrivals,
    hosts: base.Ints,
    snapshots: collections.abc.Sequence[simulation_.Snapshot],
    policy: int,
    since: float,
) -> Run:
    """Return the figures of a policy for the requests since a time.

    :param hosts: of each request by policy, (P, N).
    """
    counted = arrivals.times >= since
    kinds = arrivals.kinds[counted]
    accepted = hosts[policy, counted] != simulation_.REFUSED
    gb = np.array([one.gb for one in mix])[kinds]
    wide = np.array([one.is_wide for one in mix])[kinds]
    states = [
        (
            *_state(shape, snapshot.used_gb[policy], snapshot.vdisks[policy]),
            _cv(shape.host_total[:, 0] - snapshot.host_free[policy, :, 0]),
        )
        for snapshot in snapshots
    ]
    return Run(
        _share(gb, accepted),
        float(accepted.mean()),
        _share(wide, accepted),
        _share(gb == max(one.gb for one in mix), accepted),
        *np.mean(states, axis=0).tolist(),
    )


def _share(amounts: base.Ints, accepted: base.Bools) -> float:
    """Return the accepted share of amounts, 1 if there are none."""
    total = amounts.sum()
    return float(amounts[accepted].sum() / total) if total else 1.0


def _state(
    shape: fleets.Shape, used_gb: base.Ints, vdisks: base.Ints
) -> tuple[float, float, float]:
    """Return neighbours, their 95th percentile, and the balance of GiB."""
    real = shape.total_gb > 0
    on_disk = np.sort(vdisks[real])
    total = max(int(on_disk.sum()), 1)
    at = np.searchsorted(np.cumsum(on_disk), 0.95 * total)
    return (
        float((on_disk * (on_disk - 1)).sum() / total),
        float(on_disk[at] - 1),
        _cv(used_gb[real] / shape.total_gb[real]),
    )


def _cv(values: base.Floats) -> float:
    """Return the standard deviation, divided by the mean."""
    return float(values.std() / max(values.mean(), 1e-9))


def add_mean(
    figures: _report.Figures,
    name: str,
    values: collections.abc.Sequence[float],
) -> None:
    """Add a mean over seeds and the ends of its interval."""
    if len(values) < 2:
        figures[name] = values[0]
        return
    _add(figures, name, *_ends(stats.interval(values)))


def add_ratio(
    figures: _report.Figures,
    name: str,
    values: collections.abc.Sequence[float],
    others: collections.abc.Sequence[float],
) -> None:
    """Add a ratio of values measured in pairs, and its interval."""
    if len(values) < 2:
        figures[name] = values[0] / others[0]
        return
    _add(figures, name, *stats.ratio(values, others))


def add_difference(
    figures: _report.Figures,
    name: str,
    values: collections.abc.Sequence[float],
    others: collections.abc.Sequence[float],
) -> None:
    """Add a difference of values measured in pairs, and its interval."""
    add_mean(
        figures,
        name,
        [a - b for a, b in zip(values, others, strict=True)],
    )


def mean(runs: collections.abc.Sequence[Run], figure: str) -> float:
    """Return the mean of a figure over seeds."""
    return statistics.fmean(getattr(run, figure) for run in runs)


def _ends(interval: stats.Interval) -> tuple[float, float, float]:
    return interval.mean, interval.low, interval.high


def _add(
    figures: _report.Figures, name: str, value: float, low: float, high: float
) -> None:
    figures[name] = round(value, 5)
    figures[f'{name}_low'] = round(low, 5)
    figures[f'{name}_high'] = round(high, 5)
