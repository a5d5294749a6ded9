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

"""What no policy can exceed: bounds of the placement simulation.

Both know all requests in advance, and both are solved by HiGHS.
"""

import numpy as np
from scipy import optimize
from scipy import sparse

import _placement_fleet as fleets
import _placement_loads as loads


def over_time(
    mix: loads.Mix, arrivals: loads.Arrivals, capacity_gb: int
) -> float:
    """Return the GiB that one large disk could accept, by LP.

    Servers may be accepted in part, so nothing is lost to fragments. The
    servers of the beginning count as well.
    """
    times, kinds, ends = arrivals
    gb = np.array([one.gb for one in mix], dtype=float)[kinds]
    count = len(times)
    every = np.arange(count)
    # used[i] = used[i - 1] + gb[i] * accepted[i] - what has ended since
    gone = np.searchsorted(times, ends)
    seen = gone < count
    ones = np.ones(count)
    rows = [every, every, every[1:], gone[seen]]
    columns = [every, count + every, count + every[:-1], every[seen]]
    values = [-gb, ones, -ones[1:], gb[seen]]
    found = optimize.linprog(
        np.concatenate([-gb, np.zeros(count)]),
        A_eq=sparse.csr_array(
            (
                np.concatenate(values),
                (np.concatenate(rows), np.concatenate(columns)),
            ),
            shape=(count, 2 * count),
        ),
        b_eq=np.zeros(count),
        bounds=np.repeat([[0, 1], [0, capacity_gb]], count, axis=0),
        method='highs',
    )
    assert found.success, found.message
    return float(-found.fun)


def of_batch(
    mix: loads.Mix,
    arrivals: loads.Arrivals,
    shape: fleets.Shape,
    seconds: float,
) -> float:
    """Return an upper bound of the GiB of a batch that fits, by MILP.

    Integers are the servers of each flavor on each host, and their pieces on
    each disk; pieces of one server are on distinct disks where the mapping
    spreads them. If the solver does not finish in time, its dual bound is
    returned, which may be higher than what fits.

    :param shape: hosts of equal disks, of any medium.
    :param seconds: time for the solver.
    """
    demand = np.bincount(arrivals.kinds, minlength=len(mix))
    hosts, disks = shape.total_gb.shape
    kinds = len(mix)
    servers = np.arange(hosts * kinds).reshape(hosts, kinds)
    pieces = servers.size + np.arange(hosts * kinds * disks).reshape(
        hosts, kinds, disks
    )
    count = servers.size + pieces.size
    requests = [one.request for one in mix]
    need = np.array([request.pieces for request in requests], dtype=float)
    gb = np.array([request.piece_gb for request in requests], dtype=float)
    constraints = [
        # all pieces of its servers are on the host
        _rows(
            count,
            [(pieces, 1.0), (servers[:, :, None], -need[None, :, None])],
            0,
            0,
        ),
        # the disks hold them
        _rows(
            count,
            [(pieces.transpose(0, 2, 1), gb)],
            -np.inf,
            shape.total_gb.ravel(),
        ),
        # there are no more servers than requests
        _rows(count, [(servers.T, 1.0)], 0, demand),
    ]
    for kind, one in enumerate(mix):
        if fleets.spreads(one) and one.request.pieces > 1:
            of_kind = np.stack(
                [
                    pieces[:, kind].ravel(),
                    np.repeat(servers[:, kind], disks),
                ],
                axis=1,
            )
            constraints.append(
                _rows(count, [(of_kind, np.array([1.0, -1.0]))], -np.inf, 0)
            )
    upper = np.concatenate(
        [
            np.tile(demand, hosts),
            np.repeat(np.tile(demand * need, hosts), disks),
        ]
    )
    cost = np.zeros(count)
    cost[servers] = [-one.gb for one in mix]
    found = optimize.milp(
        cost,
        integrality=np.ones(count),
        bounds=optimize.Bounds(0, upper),
        constraints=constraints,
        options={'time_limit': seconds, 'mip_rel_gap': 0.002},
    )
    batch_gb = sum(mix[kind].gb for kind in arrivals.kinds.tolist())
    if found.mip_dual_bound is None:
        return batch_gb
    return min(-found.mip_dual_bound, batch_gb)


def _rows(count, terms, low, high):
    """Return constraints, one for each row of the variables.

    :param terms: pairs of variables, (..., N), and their factors, which are
        broadcast to them.
    """
    size = terms[0][0].shape[:-1]
    number = int(np.prod(size))
    rows, columns, values = [], [], []
    for variables, factors in terms:
        of_rows = variables.reshape(number, -1)
        rows.append(np.repeat(np.arange(number), of_rows.shape[1]))
        columns.append(of_rows.ravel())
        values.append(np.broadcast_to(factors, variables.shape).ravel())
    matrix = sparse.csr_array(
        (
            np.concatenate(values),
            (np.concatenate(rows), np.concatenate(columns)),
        ),
        shape=(number, count),
    )
    return optimize.LinearConstraint(matrix, low, high)
