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

"""Scheduler workers that choose hosts from the same figures.

Each of the workers chooses hosts for one random request, and knows nothing of
the others. Then they claim, one after the other: disks are chosen from fresh
figures, as the product does, and a claim fails if the host has no room left.
The next host of the request's list is tried.
"""

import typing

import numpy as np

import _placement_loads as loads
import _placement_policies as policies_
import _placement_simulation as simulation_


class Count(typing.NamedTuple):
    """Requests for which there was a host, and what became of them."""

    requests: int = 0
    first_failed: int = 0
    lost: int = 0

    def __add__(self, other: 'Count') -> 'Count':
        return Count(*map(sum, zip(self, other, strict=True)))


def race(
    simulation: simulation_.Simulation,
    workers: int,
    rounds: int,
    rng: np.random.Generator,
) -> list[Count]:
    """Return what became of all requests, by policy.

    The state of the simulation is as before afterwards.
    """
    counts = [Count() for _ in simulation.policies]
    shares = loads.shares(simulation.mix)
    for _ in range(rounds):
        kinds = rng.choice(len(shares), workers, p=shares).tolist()
        for copy, policy in enumerate(simulation.policies):
            lists = [
                _hosts(simulation, copy, policy, kind, rng) for kind in kinds
            ]
            claims = []
            for kind, rows in zip(kinds, lists, strict=True):
                if not len(rows):
                    continue
                claimed, tries = _claim(simulation, copy, kind, rows)
                lost = claimed is None
                counts[copy] += Count(1, lost or tries > 1, lost)
                if claimed is not None:
                    claims.append(claimed)
            for rows, pieces, kind in claims:
                simulation.claim(rows, pieces, kind, -1)
    return counts


def _hosts(simulation, copy, policy, kind, rng):
    """Return the rows of a request's hosts, the best one first."""
    evaluation = simulation.evaluations[kind]
    evaluation.update()
    decision = policies_.Decision(evaluation, copy)
    if not len(decision.hosts):
        return decision.rows
    return decision.rows[policy.order(decision, rng)]


def _claim(simulation, copy, kind, rows):
    """Claim on the first host with room.

    :returns: what to release later, None if no host has room, and the number
        of tries.
    """
    evaluation = simulation.evaluations[kind]
    evaluation.update()
    room = evaluation.fits & evaluation.candidates
    for number, row in enumerate(rows.tolist(), start=1):
        if room[row]:
            chosen = np.array([row])
            pieces = simulation.place(kind, np.array([copy]), chosen, '')
            simulation.claim(chosen, pieces, kind)
            return (chosen, pieces, kind), number
    return None, len(rows)
