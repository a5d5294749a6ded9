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

"""Nova's own check of the body of a request for servers."""

import collections.abc
import inspect
import typing

from nova.api import validation
from nova.api.openstack.compute import servers

from nova_diskplacer import exception

Check = collections.abc.Callable[..., None]


def check() -> Check:
    """Return the check that Nova makes before it creates servers.

    It takes the arguments ``req`` and ``body`` by name, chooses the schema by
    the microversion of the request, and raises what Nova raises. As in Nova,
    it removes unknown properties from the body of a request to ``/v2``.

    Nova puts a decorator with a schema for each range of microversions around
    the method that creates servers. The check has the same ones around a
    function that does nothing.

    :raises DiskPlacerError: the method has none in this release of Nova.
    """
    schemas = list(_schemas(servers.ServersController.create))
    if not schemas:
        raise exception.DiskPlacerError(
            'the filter cannot find the schemas of requests for servers in '
            'this release of Nova'
        )
    checked: Check = _accept
    for schema in schemas:
        checked = validation.schema(*schema)(checked)
    return checked


def _schemas(method: typing.Any) -> collections.abc.Iterator[typing.Any]:
    """Return schemas and their first and last microversions."""
    while method is not None:
        variables = inspect.getclosurevars(method).nonlocals
        if 'request_body_schema' in variables:
            yield (
                variables['request_body_schema'],
                variables['min_version'],
                variables['max_version'],
            )
        method = getattr(method, '__wrapped__', None)


def _accept(req: typing.Any, body: typing.Any) -> None:
    """Accept what the schemas have accepted."""
