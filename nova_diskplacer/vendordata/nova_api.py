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

"""Reads the flavors of servers from Nova's API."""

import typing

from keystoneauth1 import exceptions as ks_exc
from oslo_config import cfg

from nova_diskplacer import conf as options
from nova_diskplacer import nova_server
from nova_diskplacer import service_account

# Default of ``timeout``, in seconds. Nova itself waits 5 s for the answer. The
# request to Nova's API is the one that may take some time: Nova asks Neutron
# for the server's security groups. A token is used for many requests.
_TIMEOUT = 3


class NovaClient:
    """Sends requests to Nova's API.

    :param adapter: a ``keystoneauth1.adapter.Adapter``; the client calls its
        method ``get``.
    """

    def __init__(self, adapter: typing.Any) -> None:
        self._adapter = adapter

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> 'NovaClient':
        """Return a client with the account of ``[diskplacer_vendordata]``.

        :raises DiskPlacerError: the options are invalid.
        """
        group = options.vendordata.GROUP.name
        return cls(
            service_account.load_adapter(conf, group, 'compute', _TIMEOUT)
        )

    def server(self, uuid: str) -> nova_server.Server | None:
        """Return a server, None if there is none.

        :raises NovaError: Nova does not answer, refuses, or does not show the
            extra specs.
        """
        try:
            response = self._adapter.get(
                f'/servers/{uuid}',
                microversion=nova_server.MICROVERSION,
                raise_exc=False,
            )
        except ks_exc.ClientException as error:
            raise nova_server.NovaError(
                f'Nova cannot be reached: {error}'
            ) from error
        if response.status_code == 404:
            return None
        if response.status_code != 200:
            raise nova_server.NovaError(
                f'Nova answers {response.status_code}: {response.text}'
            )
        with nova_server.checked(f'[{options.vendordata.GROUP.name}]'):
            return nova_server.parse(response.json()['server'])
