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

"""Finds the requests that create servers, by Nova's own router."""

import collections.abc
import typing

from nova.api import openstack
from nova.api import wsgi as base_wsgi
from nova.api.openstack import wsgi

# The second one is an alias.
_PATHS = ('/servers', '/os-volumes_boot')

_FOUND = 200

# Nova reads the bodies of these only.
_METHODS = ('POST', 'PUT')


class Router:
    """Nova's router with the routes of the requests that create servers.

    Nova takes more for such a request than ``POST /servers``: the method may
    be in the query, and the path may end with a newline.
    """

    def __init__(self) -> None:
        mapper = openstack.ProjectMapper()
        for path in _PATHS:
            mapper.create_route(path, 'POST', _found, 'create')
        self._router = base_wsgi.Router(mapper)

    def creates_servers(self, request: wsgi.Request) -> bool:
        """Return whether a request is for servers, in its user's project.

        Nova refuses one for another project. The body must be none that a
        browser makes of a form: the router looks for the method there.
        """
        if request.method not in _METHODS:
            return False
        environ = dict(request.environ)
        response = wsgi.Request(environ).get_response(self._router)
        if response.status_int != _FOUND:
            return False
        _, route = environ['wsgiorg.routing_args']
        project = environ['nova.context'].project_id
        return route.get('project_id') in (None, project)


def _found(
    environ: dict[str, typing.Any],
    start_response: collections.abc.Callable[..., typing.Any],
) -> list[bytes]:
    start_response(f'{_FOUND} OK', [])
    return []
