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

"""Interface of the mappings."""

import abc
import typing

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.signedinteger[typing.Any]]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Mapping(abc.ABC):
    """A mapping over H hosts of up to D disks each.

    All arrays have shape (H, D); a disk that does not exist or may not be
    used has no slots. A mapping breaks ties by the order of the columns, which
    the caller chooses.

    :cvar spreads: the mapping puts the vdisks of a server on distinct disks:
        ``vdisks_per_disk`` limits how many share one, and a vdisk that is
        added later goes where the server has the fewest. Otherwise it goes
        where the server has some already.
    """

    spreads: typing.ClassVar[bool] = False

    @abc.abstractmethod
    def place(
        self, slots: Ints, load: Floats, vdisks: int, per_disk: int
    ) -> Ints:
        """Choose disks for ``vdisks`` equal vdisks on each host.

        :param slots: how many of the vdisks each disk has room for, (H, D).
        :param load: committed share of each disk, 0 to 1, (H, D); 0 is an
            empty disk.
        :param vdisks: how many vdisks to place on each host.
        :param per_disk: how many of them may share a disk.
        :returns: vdisks per disk, (H, D). A row sums to ``vdisks``, or to 0
            where the host cannot hold them as the mapping demands.
        """

    @abc.abstractmethod
    def score(self, counts: Ints, load: Floats) -> Floats:
        """Score the choice of ``place`` on each host.

        :param counts: as returned by ``place``, (H, D).
        :param load: as given to ``place``, (H, D).
        :returns: a score per host, (H,), between 0 and 1; higher is better.
        """
