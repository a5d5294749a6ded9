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

"""Names in Nova's code on which extra spec validators and the filter rely."""

from nova_diskplacer import internals
from nova_diskplacer.internals import Name

#: Checked when nova-api loads the filter. It does not start without the base
#: of the validators.
API: internals.Names = (
    Name(
        'nova.api.validation.extra_specs.base.ExtraSpecValidator',
        'The validators of the ``diskplacer:`` extra specs.',
    ),
    Name(
        'nova.api.wsgi.Middleware',
        'Base of the filter.',
        source=('self.process_request(req)',),
    ),
    Name(
        'nova.api.openstack.wsgi.Request',
        'The request: its microversion and the type of its content.',
    ),
    Name(
        'nova.api.openstack.wsgi.Request.set_api_version_request',
        'Reads the microversion from the headers.',
    ),
    Name(
        'nova.api.openstack.wsgi.Request.get_content_type',
        'Refuses what is not JSON.',
    ),
    Name(
        'nova.api.wsgi.Router',
        'Tells which requests create servers.',
        source=('routes.middleware.RoutesMiddleware(', "match['controller']"),
    ),
    Name('nova.api.openstack.ProjectMapper', 'The routes of the router.'),
    Name(
        'nova.api.openstack.ProjectMapper.create_route',
        'The path of such a request, with the project and without it.',
        source=('project_id_token',),
    ),
    Name(
        'nova.api.openstack.compute.routes.ROUTE_LIST',
        'The paths ``/servers`` and ``/os-volumes_boot``.',
    ),
    Name(
        'nova.api.validation.schema',
        "The schemas of a request's body, around the method that creates "
        'servers.',
        parameters=('request_body_schema', 'min_version', 'max_version'),
    ),
    Name('nova.api.openstack.wsgi.Fault', "Errors in the API's format."),
    Name(
        'nova.api.openstack.api_version_request.APIVersionRequest',
        'Compares microversions.',
    ),
    Name(
        'nova.api.openstack.common.get_id_from_href',
        'A flavor may be named by a URL.',
    ),
    Name(
        'nova.api.openstack.compute.servers.ServersController.create',
        'It reads the flavor in the same way.',
        source=('get_flavor_by_flavor_id(', "server_dict.get('min_count'"),
    ),
    Name(
        'nova.objects.Flavor.get_by_flavor_id',
        'The flavor, if the user may see it.',
        parameters=('read_deleted',),
    ),
    Name(
        'nova.block_device.BlockDeviceDict',
        'The mappings that an image brings.',
    ),
    Name(
        'nova.block_device.BlockDeviceDict.from_api',
        'Normalizes the mappings of a request.',
        parameters=('image_uuid_specified',),
    ),
    Name(
        'nova.block_device.from_legacy_mapping',
        'Normalizes mappings of the old kind.',
    ),
    Name(
        'nova.block_device.properties_root_device_name',
        "The root device of an image's mappings.",
    ),
    Name(
        'nova.compute.api.API._get_image_defined_bdms',
        'The mappings that an image brings are among its properties.',
        source=("'block_device_mapping'", "'bdm_v2'"),
    ),
    Name(
        'nova.compute.api.API._check_and_transform_bdm',
        "An image's own root replaces the root of a request that is made of "
        'an image.',
        source=('not_image_and_root_bdm',),
    ),
    Name(
        'nova.compute.api.API.parse_availability_zone',
        'ZONE:HOST and ZONE::NODE name a host, ZONE: names none.',
        source=("split(':')", "split('::')"),
    ),
    Name(
        'nova.image.glance.API',
        "Nova's own client of Glance: the image of a request.",
    ),
    Name('nova.volume.cinder.API', "Nova's own client of Cinder."),
    Name(
        'nova.volume.cinder.cinderclient',
        'The same, for quotas, the default type and the backends. It hands on '
        'one request ID: one that the client has sent, or else the one that '
        'Nova keeps with the actions of a server.',
        source=('global_request_id=context.global_id',),
    ),
    Name(
        'nova.context.get_admin_context',
        "The context in which Nova's own account asks for the backends.",
    ),
    Name(
        'nova.policies.servers.SERVERS',
        'Who may create no servers is answered by Nova.',
    ),
    Name(
        'nova.context.RequestContext.can',
        'Nova checks this policy with the same target.',
        parameters=('action', 'target'),
    ),
    Name('nova.exception.NovaException', 'An error of Cinder or Glance.'),
    Name('nova.exception.Forbidden', 'Nova answers the request.'),
    Name('nova.exception.ImageNotAuthorized', 'Nova answers the request.'),
    Name('nova.exception.Invalid', 'Nova answers the request.'),
    Name('nova.exception.NotFound', 'Nova answers the request.'),
)
