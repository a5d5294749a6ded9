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

"""Servers, and their hosts, as Nova's API shows them to an account."""

import collections.abc
import contextlib
import dataclasses
import datetime
import typing

from nova_diskplacer import exception

#: the first microversion that embeds the extra specs of the flavor
MICROVERSION = '2.47'

# Seconds after which Nova takes a service for down: [DEFAULT]
# service_down_time. A service that runs is updated every few seconds, also
# when it is forced down.
_SILENCE = 60.0


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


def why_not_lost(
    host: str,
    is_forced_down: bool | None,
    updated_at: str | None,
    updates: collections.abc.Iterable[str | None],
) -> str:
    """Return why a host must not be taken for lost, '' if it is lost.

    Nova shows a service that is forced down as down, whether it runs or not.
    The clock here may differ from that of Nova, so time ends with the last
    update of any service.

    :param is_forced_down: whether an administrator has said of its
        nova-compute that it is fenced.
    :param updated_at: when nova-compute was last updated, by Nova's clock.
    :param updates: the same of all services of Nova, this one included.
    """
    if not is_forced_down:
        return (
            f'nova-compute of host {host} is not forced down: switch the host '
            'off, so that none of its servers runs, and say so: openstack '
            f'compute service set --down {host} nova-compute'
        )
    if updated_at:
        last = datetime.datetime.fromisoformat(updated_at)
        now = max(map(datetime.datetime.fromisoformat, filter(None, updates)))
        age = (now - last).total_seconds()
        if age < _SILENCE:
            return (
                f'nova-compute of host {host} was heard of, or forced down, '
                f'{age:.0f} s ago: if the host is off, repeat this in a minute'
            )
    return ''


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
