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


"""The configuration files of every service, from a cloud's state."""

import base64
import os
import pathlib

from tools.minicloud import cinder
from tools.minicloud import heat
from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud.process import SLOWER
from tools.minicloud.state import Host
from tools.minicloud.state import State

SCHEDULER_FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'NUMATopologyFilter',
    'DiskPlacementFilter',
)
# The API's pipelines, with the filter that adds the vdisks.
PASTE = 'nova-api-paste.ini'
_FILTER = """
[filter:diskplacer]
paste.filter_factory = nova_diskplacer.api.blank_volumes:BlankVolumes.factory
"""


def write_all(state: State) -> None:
    """Write the files of all services; each libvirtd answers already."""
    conf = state.conf
    ini.write(conf / 'keystone.conf', _keystone(state))
    for name in ('fernet-keys', 'credential-keys'):
        _keys(conf / name)
    ini.write(conf / 'placement.conf', _placement(state))
    ini.write(conf / 'glance-api.conf', _glance(state))
    ini.write(conf / 'nova.conf', _nova(state))
    ini.write_text(conf / PASTE, _paste())
    ini.write(conf / 'vendordata.conf', _vendordata(state))
    ini.write(conf / 'heat.conf', heat.config(state))
    ini.write_text(state.path / 'openrc', openrc(state))
    ini.write(conf / 'cinder.conf', cinder.config(state))
    for host in state.hosts:
        directory = state.host_dir(host.name)
        for name in ('nova/instances', 'cinder', 'locks'):
            (directory / name).mkdir(parents=True, exist_ok=True)
        ini.write(directory / 'nova.conf', _nova_host(state, host))
        ini.write(directory / 'cinder.conf', cinder.host_config(state, host))
        ini.write(directory / 'diskplacer.conf', _agent(state, host))


def _keystone(state: State) -> ini.Config:
    return {
        'DEFAULT': {'use_stderr': 'true'},
        'database': ini.database(state, 'keystone'),
        # the cloud lives for minutes
        'identity': {'password_hash_rounds': 4},
        'token': {'provider': 'fernet', 'expiration': 86400},
        # without it each check of a token reads the roles from the database
        'cache': {
            'enabled': 'true',
            'backend': 'oslo_cache.memcache_pool',
            'memcache_servers': f'127.0.0.1:{state.ports["memcached"]}',
        },
        'fernet_tokens': {'key_repository': f'{state.conf}/fernet-keys'},
        'fernet_receipts': {'key_repository': f'{state.conf}/fernet-keys'},
        'credential': {'key_repository': f'{state.conf}/credential-keys'},
    }


def _keys(directory: pathlib.Path) -> None:
    directory.mkdir(mode=0o700, exist_ok=True)
    for name in ('0', '1'):
        path = directory / name
        if not path.exists():
            path.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))
            path.chmod(0o600)


def _placement(state: State) -> ini.Config:
    return {
        'DEFAULT': {'use_stderr': 'true'},
        'api': {'auth_strategy': 'keystone'},
        'placement_database': ini.database(state, 'placement'),
        'keystone_authtoken': ini.authtoken(state),
    }


def _glance(state: State) -> ini.Config:
    store = state.path / 'images'
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'enabled_backends': 'file:file',
            'bind_port': state.ports['glance'],
            'node_staging_uri': f'file://{store}/staging',
        },
        'database': ini.database(state, 'glance'),
        'glance_store': {'default_backend': 'file'},
        'file': {'filesystem_store_datadir': f'{store}/store'},
        'os_glance_staging_store': {
            'filesystem_store_datadir': f'{store}/staging'
        },
        'os_glance_tasks_store': {
            'filesystem_store_datadir': f'{store}/tasks'
        },
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': ini.shipped('glance/glance-api-paste.ini'),
        },
        'keystone_authtoken': ini.authtoken(state),
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
    }


def _nova(state: State) -> ini.Config:
    return {
        **_nova_common(state),
        'api_database': ini.database(state, 'nova_api'),
        'database': ini.database(state, 'nova_cell1'),
    }


def _paste() -> str:
    """Return Nova's own file with our filter before the application."""
    text = pathlib.Path(ini.shipped('nova/api-paste.ini')).read_text()
    before = ' osapi_compute_app_v21\n'
    return text.replace(before, f' diskplacer{before}') + _FILTER


def _vendordata(state: State) -> ini.Config:
    return {
        'DEFAULT': {'use_stderr': 'true'},
        'keystone_authtoken': ini.authtoken(state),
        'diskplacer_vendordata': {
            **ini.auth(state),
            'listen_port': state.ports['vendordata'],
        },
    }


def _nova_common(state: State) -> ini.Config:
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'debug': 'false',
            'transport_url': ini.transport(state),
            'my_ip': '127.0.0.1',
            'enabled_apis': 'osapi_compute',
            'state_path': f'{state.path}/nova',
            'instance_name_template': f'{state.token}-%08x',
            'block_device_allocate_retries': round(300 * SLOWER),
            'block_device_allocate_retries_interval': 1,
            'report_interval': ini.interval(10),
            'update_resources_interval': round(60 * SLOWER),
            'service_down_time': state.down,
            'rpc_response_timeout': ini.ANSWER,
            'allow_resize_to_same_host': 'true',
            'reserved_host_memory_mb': 0,
            # guests know no ACPI, and do not shut down
            'shutdown_timeout': round(10 * SLOWER),
        },
        'api': {
            'auth_strategy': 'keystone',
            'vendordata_providers': 'StaticJSON,DynamicJSON',
            # the name is what cloud-init looks for
            'vendordata_dynamic_targets': (
                f'cloud-init@{state.url("vendordata")}/'
            ),
        },
        'vendordata_dynamic_auth': ini.auth(state),
        'wsgi': {'api_paste_config': f'{state.conf}/{PASTE}'},
        'diskplacer_api': {'volume_type': 'vdisk'},
        'keystone_authtoken': ini.authtoken(state),
        'service_user': ini.auth(state, send_service_user_token='true'),
        'placement': ini.auth(state),
        'cinder': ini.auth(state, catalog_info='volumev3::publicURL'),
        'glance': {'endpoint_override': state.url('glance')},
        'neutron': ini.auth(state, endpoint_override=state.url('neutron')),
        'conductor': {'workers': 1},
        'key_manager': cinder.key_manager(state, 'nova'),
        'quota': {'instances': -1, 'cores': -1, 'ram': -1},
        'scheduler': {
            'workers': 1,
            'discover_hosts_in_cells_interval': round(3 * SLOWER),
        },
        'filter_scheduler': {
            'available_filters': [
                'nova.scheduler.filters.all_filters',
                'nova_diskplacer.scheduler.filter.DiskPlacementFilter',
            ],
            'enabled_filters': ','.join(SCHEDULER_FILTERS),
            'weight_classes': 'nova.scheduler.weights.all_weighers,'
            'nova_diskplacer.scheduler.weigher.DiskPlacementWeigher,'
            'nova_diskplacer.scheduler.pressure_weigher.DiskPressureWeigher',
        },
        # agents may be slow to report, too
        'diskplacer_scheduler': {
            'report_timeout': state.down,
            'warmup_timeout': 60,
            'moves': str(any(host.moves for host in state.hosts)),
        },
        'vnc': {'enabled': 'false'},
        'workarounds': {'disable_rootwrap': 'true'},
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'oslo_messaging_rabbit': ini.rabbit(),
    }


def _nova_host(state: State, host: Host) -> ini.Config:
    directory = state.host_dir(host.name)
    config = _nova_common(state)
    config['DEFAULT'] |= {
        'host': host.name,
        'state_path': f'{directory}/nova',
        'compute_driver': 'fake.FakeDriverWithoutFakeNodes',
    }
    config['oslo_concurrency'] = {'lock_path': f'{directory}/locks'}
    if host.guests == 'libvirt':
        config['DEFAULT'] |= {
            'compute_driver': 'libvirt.LibvirtDriver',
            'instances_path': str(hypervisor.instances(state)),
            # one for all would say that they share instances_path
            'my_ip': hypervisor.address(state, host.name),
        }
        config['libvirt'] = {
            'virt_type': 'qemu',
            'cpu_mode': 'none',
            'connection_uri': hypervisor.uri(state, host.name),
            'live_migration_uri': hypervisor.migration_uri(state),
            # a guest that is booting may let go of no disk yet
            'device_detach_attempts': 30,
        }
    helper = ini.helper(f'--config-file {directory}/nova.conf')
    return {**config, 'nova_sys_admin': helper, 'privsep_osbrick': helper}


def _agent(state: State, host: Host) -> ini.Config:
    directory = state.host_dir(host.name)
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'host': host.name,
            'transport_url': ini.transport(state),
        },
        'diskplacer': {
            'disk_root': str(state.disk_root(host.name)),
            'compute_node': hypervisor.compute_node(state, host),
            'lock_dir': state.lock_dir(host.name),
        },
        'diskplacer_agent': {
            'report_interval': ini.interval(10),
            'idle_interval': ini.interval(30),
            'heartbeat_interval': ini.interval(30),
            'watch_interval': ini.interval(2),
            # of hosts with fake guests it has none of their servers
            'libvirt_uri': hypervisor.uri(state, host.name),
            'nova_conf': f'{directory}/nova.conf',
            'state_dir': f'{directory}/agent',
        },
        # another cloud may serve metrics where they are by default
        'diskplacer_monitor': {'metrics_port': 0, 'interval': str(SLOWER)},
        'diskplacer_elastic': {'enabled': str(host.lvm)},
        'placement': ini.auth(state),
        'oslo_concurrency': {'lock_path': f'{directory}/locks'},
        'oslo_messaging_rabbit': ini.rabbit(),
    }


def login(
    state: State, project: str = 'admin', username: str = 'admin'
) -> dict[str, str]:
    """Return the variables that clients log in with."""
    return {
        'OS_AUTH_URL': state.url('keystone'),
        'OS_USERNAME': username,
        'OS_PASSWORD': state.secret,
        'OS_PROJECT_NAME': project,
        'OS_USER_DOMAIN_ID': 'default',
        'OS_PROJECT_DOMAIN_ID': 'default',
        'OS_REGION_NAME': 'RegionOne',
        'OS_IDENTITY_API_VERSION': '3',
    }


def openrc(
    state: State, project: str = 'admin', username: str = 'admin'
) -> str:
    """Return shell lines that log in to the cloud."""
    values = login(state, project, username)
    return ''.join(f'export {k}={v}\n' for k, v in values.items())
