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

"""A filter for Nova's API: the flavor alone gives the vdisks.

On a request for a server whose flavor has vdisks, and that brings none, it
adds the blank volumes. One that brings some must bring the number of the
flavor, or gets a 400 that names both. Servers that exist are left alone:
a rebuild or a resize changes no volumes.

``api-paste.ini`` of nova-api names the filter right before the application::

    [filter:diskplacer]
    paste.filter_factory = \
nova_diskplacer.api.blank_volumes:BlankVolumes.factory

A request that Nova would refuse passes untouched, for Nova to refuse. Nova
checks what the filter has added as if the user had asked for it, policies
included.
"""

import dataclasses
import json
import typing

import webob.dec  # noqa: F401 nova.api.wsgi uses it without importing it
from nova import exception as nova_exc
from nova import objects
from nova.api import wsgi as base_wsgi
from nova.api.openstack import api_version_request
from nova.api.openstack import common
from nova.api.openstack import wsgi
from nova.policies import servers as server_policies
from oslo_log import log as logging
from webob import exc as webob_exc

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer import internals
from nova_diskplacer.api import backends
from nova_diskplacer.api import decision
from nova_diskplacer.api import nova_internals
from nova_diskplacer.api import quota
from nova_diskplacer.api import routing
from nova_diskplacer.api import schemas
from nova_diskplacer.api import server_request
from nova_diskplacer.api import volumes
from nova_diskplacer.profiles import configured

LOG = logging.getLogger(__name__)

# Nova meets the same error, and answers it.
_NOVA_ANSWERS = (
    nova_exc.Forbidden,
    nova_exc.ImageNotAuthorized,
    nova_exc.Invalid,
    nova_exc.NotFound,
)


class BlankVolumes(base_wsgi.Middleware):
    """Adds the vdisks of a flavor to requests for servers."""

    def __init__(self, application: typing.Any) -> None:
        super().__init__(application)
        conf.register_opts(conf.CONF)
        internals.check(nova_internals.API, internals.NOVA)
        self._check = schemas.check()
        self._router = routing.Router()
        self._backends = backends.Backends()

    def process_request(self, req: typing.Any) -> wsgi.Fault | None:
        """Add what is missing; return the error if it is refused."""
        request = wsgi.Request(req.environ)
        if not _is_readable(request):
            return None
        if not self._router.creates_servers(request):
            return None
        context = request.environ['nova.context']
        # what fails here fails in Nova as well
        text = request.body
        try:
            # as Nova does: json itself would take UTF-16, too
            body = json.loads(text.decode())
            self._check(req=request, body=body)
            _check_policy(context, body)
            completed = _completed(context, request, body, self._backends)
            if completed is not None:
                # sets Content-Length as well
                request.body = completed
        except decision.Refused as error:
            return _fault(webob_exc.HTTPBadRequest, error)
        except quota.Exceeded as error:
            return _fault(webob_exc.HTTPForbidden, error)
        except (*_NOVA_ANSWERS, ValueError) as error:
            LOG.debug('Leaving a request for servers to Nova: %r', error)
        except (*volumes.ERRORS, exception.ProfileError) as error:
            LOG.error('Cannot tell the vdisks of a new server: %s', error)
            return _fault(
                webob_exc.HTTPServiceUnavailable,
                'The vdisks of the flavor cannot be determined at present.',
            )
        except Exception as error:
            # no input of a user may be an error of the filter
            LOG.warning('Leaving a request for servers to Nova: %r', error)
            LOG.debug('The request fails in the filter', exc_info=True)
        return None


def _is_readable(request: wsgi.Request) -> bool:
    """Return whether Nova reads the body, and by which microversion."""
    if not request.is_body_readable:
        return False
    try:
        request.get_content_type()
        request.set_api_version_request()
    except nova_exc.Invalid:
        return False
    return True


def _check_policy(context: typing.Any, body: dict[str, typing.Any]) -> None:
    """Check that the user may create servers, before anybody is asked.

    :raises Forbidden: Nova answers the same.
    """
    target = {
        'project_id': context.project_id,
        'user_id': context.user_id,
        'availability_zone': body['server'].get('availability_zone'),
    }
    context.can(server_policies.SERVERS % 'create', target)


def _completed(
    context: typing.Any,
    request: wsgi.Request,
    body: dict[str, typing.Any],
    volume_backends: backends.Backends,
) -> bytes | None:
    """Return the body of a request for servers with the vdisks it lacks.

    None if it lacks none.

    :raises Refused: the request does not suit its flavor.
    :raises Exceeded: the project's volume quotas cannot hold the volumes.
    """
    server = server_request.load(body)
    vdisks = _vdisks_of(context, server.flavor)
    if vdisks is None:
        return None
    version = api_version_request.APIVersionRequest(decision.NAMES_TYPES)
    volume_api = volumes.Volumes(context)
    vdisks = dataclasses.replace(
        vdisks, volume_type=volume_api.type_name(vdisks.volume_type)
    )
    brought = server_request.describe(
        server, request.api_version_request >= version, volume_api
    )
    default_type = None
    if decision.needs_default_type(vdisks, brought):
        default_type = volume_api.default_type()
    missing = decision.missing_vdisks(vdisks, brought, default_type)
    volume_type = vdisks.volume_type or default_type
    if volume_type and decision.creates_vdisks(vdisks, brought, missing):
        problem = volume_backends.problem(vdisks.media, volume_type)
        if problem:
            raise decision.Refused(
                f'The flavor cannot be used: its {problem}. Ask an '
                'administrator to set diskplacer:media of the flavor.'
            )
    if decision.local_copies(
        brought, volume_backends.hosts, volume_api.default_type
    ):
        # Nova hands one ID on to Cinder, whose scheduler finds the server by
        # Nova's own; the client's is in the log of nova-api
        context.global_request_id = None
    _check_quotas(volume_api, brought, missing, default_type)
    return server_request.with_vdisks(server, missing) if missing else None


def _vdisks_of(
    context: typing.Any, reference: str
) -> flavor.VDiskRequest | None:
    """Return the vdisks of a flavor, None if it has none.

    :param reference: the flavor's ID, or a URL that ends with it.
    :raises FlavorNotFound: the user sees no such flavor.
    :raises Refused: its extra specs are not valid.
    """
    nova_flavor = objects.Flavor.get_by_flavor_id(
        context, common.get_id_from_href(reference), read_deleted='no'
    )
    try:
        return configured.parse(nova_flavor.extra_specs)
    except ValueError as error:
        raise decision.Refused(
            f'Flavor {nova_flavor.name} cannot be used: {error}'
        ) from error


def _check_quotas(
    volume_api: volumes.Volumes,
    brought: decision.Request,
    missing: tuple[decision.Volume, ...],
    default_type: str | None,
) -> None:
    """Check that the project's quotas hold the volumes to create.

    Cinder checks again when it creates them; so where it does not tell the
    quotas, the request goes on.

    :raises Exceeded: they cannot hold them.
    """
    try:
        quotas = volume_api.quotas()
    except volumes.ERRORS as error:
        LOG.warning('Cannot read the volume quotas of a project: %s', error)
        return
    quota.check(
        quotas, brought.volumes + missing, brought.servers, default_type
    )


def _fault(kind: typing.Any, explanation: object) -> wsgi.Fault:
    """Return an error in the format of Nova's API."""
    return wsgi.Fault(kind(explanation=str(explanation)))
