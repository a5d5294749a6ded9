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


"""The configuration file of Heat's services."""

from tools.minicloud import ini
from tools.minicloud.state import State


def config(state: State) -> ini.Config:
    """Return what heat-api and heat-engine are told."""
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'transport_url': ini.transport(state),
            'num_engine_workers': 1,
            'region_name_for_services': 'RegionOne',
            'rpc_response_timeout': ini.ANSWER,
        },
        'clients_keystone': {'auth_uri': state.url('keystone')},
        'database': ini.database(state, 'heat'),
        'keystone_authtoken': ini.authtoken(state),
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'oslo_messaging_rabbit': ini.rabbit(),
        'paste_deploy': {
            'api_paste_config': ini.shipped('heat/api-paste.ini')
        },
        # acts for users later
        'trustee': {
            'auth_type': 'password',
            'auth_url': state.url('keystone'),
            'username': ini.USER,
            'password': state.secret,
            'user_domain_id': 'default',
        },
    }
