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

"""The WSGI application that answers Nova's requests for vendor data.

Nova posts a server's ID, project, image, user data, hostname and metadata, and
puts the JSON of the answer into ``vendor_data2.json`` under the name of the
target. The answer is one JSON string, empty if the server gets nothing. Nova
and cloud-init treat an empty string as no vendor data, so a failure of the
service does not fail the boot.
"""

import collections.abc
import json
import threading
import typing

import cachetools
import webob
import webob.exc
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.disks import identity
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.vendordata import answer
from nova_diskplacer.vendordata import nova_api

LOG = logging.getLogger(__name__)

# Bytes of a request. Nova's have 64 KiB of user data at most, and 128 items of
# metadata, each of 510 characters of up to 4 bytes.
_MAX_BYTES = 1 << 20

# Seconds for which an answer is kept, and the number of answers, of some
# 20 KiB each. Nova asks once for each version of its metadata when it makes a
# config drive, which is six times in a row.
_SECONDS = 10
_ANSWERS = 256

StartResponse = collections.abc.Callable[..., typing.Any]
Environ = dict[str, typing.Any]


class Servers(typing.Protocol):
    """Returns servers by their IDs, as ``nova_api.NovaClient`` does."""

    def server(self, uuid: str) -> nova_server.Server | None:
        """Return a server, None if there is none."""


class Application:
    """Answers requests that ``auth_token`` has authenticated.

    :param roles: the roles of which an account must have one.
    """

    def __init__(
        self,
        servers: Servers,
        profiles: catalogue.Catalogue,
        roles: collections.abc.Iterable[str],
    ) -> None:
        self._servers = servers
        self._profiles = profiles
        self._roles = frozenset(roles)
        self._answers: typing.Any = cachetools.TTLCache(_ANSWERS, _SECONDS)
        self._lock = threading.Lock()

    def __call__(
        self, environ: Environ, start_response: StartResponse
    ) -> collections.abc.Iterable[bytes]:
        """Answer a request, by the protocol of WSGI."""
        request = webob.Request(environ)
        try:
            response = webob.Response(json_body=self._answer(request))
        except webob.exc.HTTPError as error:
            response = error
        body: collections.abc.Iterable[bytes] = response(
            environ, start_response
        )
        return body

    def _answer(self, request: webob.Request) -> str:
        if request.method != 'POST':
            raise webob.exc.HTTPMethodNotAllowed(headers={'Allow': 'POST'})
        roles = request.headers.get('X-Roles', '').split(',')
        if self._roles.isdisjoint(roles):
            raise webob.exc.HTTPForbidden(
                'the account has none of the roles of '
                f'[{options.vendordata.GROUP.name}] roles'
            )
        key = server, project = _parse(request)
        with self._lock:
            recent: str | None = self._answers.get(key)
        if recent is not None:
            return recent
        try:
            text = self._vendor_data(server, project)
        except (ValueError, exception.DiskPlacerError) as error:
            LOG.error('Server %s gets no vendor data: %s', server, error)
            text = ''
        with self._lock:
            self._answers[key] = text
        return text

    def _vendor_data(self, uuid: str, project_id: str) -> str:
        """Return the vendor data of a server.

        :raises ValueError: the flavor is invalid.
        :raises DiskPlacerError: Nova does not answer, or shows no such server
            in the project.
        """
        server = self._servers.server(uuid)
        if server is None or server.project_id != project_id:
            raise exception.DiskPlacerError(
                f'Nova has no such server in project {project_id}'
            )
        return answer.for_flavor(server.extra_specs, self._profiles)


def _parse(request: webob.Request) -> tuple[str, str]:
    """Return the IDs of the server and of its project.

    :raises HTTPError: the body may be too large, is no JSON or has no such
        IDs.
    """
    length = request.content_length
    if length is None or length < 0:
        # a body in chunks may be of any size
        raise webob.exc.HTTPLengthRequired()
    if length > _MAX_BYTES:
        raise webob.exc.HTTPRequestEntityTooLarge(
            f'the body may have {_MAX_BYTES} bytes at most'
        )
    try:
        # JSON tells its encoding, whatever the header says
        body = json.loads(request.body)
        server, project = body['instance-id'], body['project-id']
    except (KeyError, RecursionError, TypeError, ValueError):
        raise webob.exc.HTTPBadRequest(
            'the body is not a JSON object with instance-id and project-id'
        ) from None
    # the ID becomes part of a URL
    if not isinstance(server, str) or not identity.is_uuid(server):
        raise webob.exc.HTTPBadRequest('instance-id is not a UUID')
    if not isinstance(project, str):
        raise webob.exc.HTTPBadRequest('project-id is not a string')
    return server, project


def from_conf(conf: cfg.ConfigOpts) -> typing.Any:
    """Return the application behind ``auth_token``, as configured.

    :raises DiskPlacerError: an option or a profile is invalid.
    """
    application = Application(
        nova_api.NovaClient.from_conf(conf),
        catalogue.load(conf.diskplacer.profile_dirs),
        conf[options.vendordata.GROUP.name].roles,
    )
    # delay_auth_decision would let requests without a token pass to us
    return auth_token.AuthProtocol(
        application,
        {'oslo_config_config': conf, 'delay_auth_decision': False},
    )
