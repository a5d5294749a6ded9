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

"""The type of the claims of papers, and the names that they share."""

import dataclasses
import typing

from diskplacer_measure.sweep import rules

#: The host's schedulers that stand for deadline and noop.
FRIENDLY = ('mq-deadline', 'none')

SERVERS = ('server', 'servers')

#: Asynchronous requests.
READ: dict[str, typing.Any] = {'engine': 'async', 'operation': 'read'}
WRITE: dict[str, typing.Any] = {'engine': 'async', 'operation': 'write'}


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of a paper, the paper's figure, and the rule that judges it.

    ``name`` is that among the claims of its paper. ``figure`` names the figure
    of the report that it stands beside. ``note`` is the difference between the
    sweep and the paper.
    """

    paper: str
    name: str
    place: str
    figure: str
    sentence: str
    theirs: str
    rule: rules.Rule
    note: str = ''


#: That writes of bare metal do not depend on the scheduler: in both papers.
WRITES_ARE_ALIKE = rules.all_of(
    *(
        rules.swapped(
            f'{other} to mq-deadline',
            rules.ALIKE,
            'host_scheduler',
            (other, 'mq-deadline'),
            scenario='bare',
            **WRITE,
        )
        for other in ('bfq', 'none')
    )
)
