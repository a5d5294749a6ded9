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

"""Options of diskplacer-vendordata."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_vendordata',
    title='diskplacer-vendordata',
    help="""
The service that answers Nova's requests for dynamic vendor data: for a server
whose flavor has ``diskplacer:guest``, the part by which cloud-init formats and
mounts the vdisks.

The service reads servers from Nova with an account of this group. Its options
are those of keystoneauth, as in ``[placement]``: ``auth_type``, ``auth_url``,
``username`` and so on, or ``auth_section = keystone_authtoken``. The account
needs the role admin. ``timeout`` is 3 seconds by default.

``[keystone_authtoken]`` is the group of keystonemiddleware, which checks the
tokens of requests.
""",
)

OPTS = [
    cfg.HostAddressOpt(
        'listen_address',
        default='127.0.0.1',
        help="""
Address on which ``diskplacer-vendordata`` accepts connections, by HTTP without
TLS. nova-compute sends requests for servers with a config drive, Nova's
metadata API for the others. If they run on other hosts, put a proxy with TLS
before the service, since the requests contain tokens and user data.

A WSGI server that runs the application ignores the option.
""",
    ),
    cfg.PortOpt(
        'listen_port',
        default=9749,
        min=1,
        help="""
TCP port on which ``diskplacer-vendordata`` accepts connections.

A WSGI server that runs the application ignores the option.
""",
    ),
    cfg.ListOpt(
        'roles',
        default=['service'],
        help="""
Roles of Keystone, of which the account in ``[vendordata_dynamic_auth]`` of
nova.conf must have one. Requests by others are refused with 403. An empty list
refuses all requests.
""",
    ),
]
