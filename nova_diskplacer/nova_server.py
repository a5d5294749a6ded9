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

"""A server as Nova's API shows it to the account of a service."""

import collections.abc
import contextlib
import dataclasses
import typing

from nova_diskplacer import exception

#: the first microversion that embeds the extra specs of the flavor
MICROVERSION = '2.47'


class NovaError(exception.DiskPlacerError):
    """Nova does not answer, or its answer is incomplete."""


@dataclasses.dataclass(frozen=True)
class Server:
    """A server, its project, and the extra specs of its flavor."""

    uuid: str
    project_id: str
    extra_specs: dict[str, str]


def parse(fields: typing.Any) -> Server:
    """Return a server of Nova's answer.

    :raises KeyError: Nova does not show a field; see :func:`checked`.
    """
    return Server(
        fields['id'], fields['tenant_id'], fields['flavor']['extra_specs']
    )


@contextlib.contextmanager
def checked(account: str) -> collections.abc.Iterator[None]:
    """Raise what an answer lacks as NovaError.

    :param account: the group of options with the account that asked.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise NovaError(
            f'Nova does not show {error} of a server: the account in '
            f'{account} needs the right to see it, which the role admin has'
        ) from error
