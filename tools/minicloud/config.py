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
import sys
import typing

from tools.minicloud.state import Host
from tools.minicloud.state import State

Section = dict[str, str | int | list[str]]
Config = dict[str, Section]

BIN = os.path.join(sys.prefix, 'bin')
PROJECT = 'service'
USER = 'openstack'
SCHEDULER_FILTERS = (
    'ComputeFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
    'DiskPlacementFilter',
)
CINDER_FILTERS = (
    'AvailabilityZoneFilter',
    'CapacityFilter',
    'CapabilitiesFilter',
    'VDiskLocalityFilter',
)


def write(path: pathlib.Path, config: Config) -> None:
    """Write an INI file; a list is written as one line per item."""
    lines = []
    for section, options in config.items():
        lines.append(f'[{section}]')
        for key, value in options.items():
            values = value if isinstance(value, list) else [value]
            lines += [f'{key} = {item}' for item in values]
        lines.append('')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines))
    path.chmod(0o600)


def write_all(state: State, libvirt_hostname: str) -> None:
    """Write the files of all services.

    ``libvirt_hostname`` is the hypervisor hostname of the libvirt host.
    """
    conf = state.conf
    write(conf / 'keystone.conf', _keystone(state))
    for name in ('fernet-keys', 'credential-keys'):
        _keys(conf / name)
    write(conf / 'placement.conf', _placement(state))
    write(conf / 'glance-api.conf', _glance(state))
    write(conf / 'nova.conf', _nova(state))
    write(conf / 'cinder.conf', _cinder(state))
    for host in state.hosts:
        node = libvirt_hostname if host.guests == 'libvirt' else host.name
        directory = state.host_dir(host.name)
        for name in ('nova/instances', 'cinder', 'locks'):
            (directory / name).mkdir(parents=True, exist_ok=True)
        write(directory / 'nova.conf', _nova_host(state, host))
        write(directory / 'cinder.conf', _cinder_host(state, host))
        write(directory / 'diskplacer.conf', _agent(state, host, node))


def shipped(path: str) -> str:
    """Return the path of a file that a service ships under etc/."""
    return os.path.join(sys.prefix, 'etc', path)


def database(state: State, name: str) -> Section:
    return {
        'connection': f'mysql+pymysql://openstack:{state.secret}'
        f'@127.0.0.1:{state.ports["mariadb"]}/{name}?charset=utf8mb4',
        'max_pool_size': 5,
        'max_overflow': 20,
    }


def _auth(state: State, **extra: str) -> Section:
    return {
        'auth_type': 'password',
        'auth_url': state.url('keystone'),
        'username': USER,
        'password': state.secret,
        'project_name': PROJECT,
        'user_domain_id': 'default',
        'project_domain_id': 'default',
        'region_name': 'RegionOne',
        'valid_interfaces': 'public',
        **extra,
    }


def _authtoken(state: State) -> Section:
    return _auth(
        state,
        www_authenticate_uri=state.url('keystone'),
        memcached_servers=f'127.0.0.1:{state.ports["memcached"]}',
        service_token_roles='service',
        service_token_roles_required='true',
        interface='public',
    )


def _transport(state: State) -> str:
    port = state.ports['rabbitmq']
    return f'rabbit://openstack:{state.secret}@127.0.0.1:{port}/'


def _helper(command_line: str) -> Section:
    return {'helper_command': f'{BIN}/privsep-helper {command_line}'}


def _keystone(state: State) -> Config:
    return {
        'DEFAULT': {'use_stderr': 'true'},
        'database': database(state, 'keystone'),
        # the cloud lives for minutes
        'identity': {'password_hash_rounds': 4},
        'token': {'provider': 'fernet', 'expiration': 86400},
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


def _placement(state: State) -> Config:
    return {
        'DEFAULT': {'use_stderr': 'true'},
        'api': {'auth_strategy': 'keystone'},
        'placement_database': database(state, 'placement'),
        'keystone_authtoken': _authtoken(state),
    }


def _glance(state: State) -> Config:
    store = state.path / 'images'
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'enabled_backends': 'file:file',
            'bind_port': state.ports['glance'],
            'node_staging_uri': f'file://{store}/staging',
        },
        'database': database(state, 'glance'),
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
            'config_file': shipped('glance/glance-api-paste.ini'),
        },
        'keystone_authtoken': _authtoken(state),
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
    }


def _nova(state: State) -> Config:
    return {
        **_nova_common(state),
        'api_database': database(state, 'nova_api'),
        'database': database(state, 'nova_cell1'),
    }


def _nova_common(state: State) -> Config:
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'debug': 'false',
            'transport_url': _transport(state),
            'my_ip': '127.0.0.1',
            'enabled_apis': 'osapi_compute',
            'state_path': f'{state.path}/nova',
            'instance_name_template': f'{state.token}-%08x',
            'block_device_allocate_retries': 120,
            'block_device_allocate_retries_interval': 1,
            'report_interval': 5,
            'service_down_time': 30,
            'allow_resize_to_same_host': 'true',
            'reserved_host_memory_mb': 0,
        },
        'api': {'auth_strategy': 'keystone'},
        'wsgi': {'api_paste_config': shipped('nova/api-paste.ini')},
        'keystone_authtoken': _authtoken(state),
        'service_user': _auth(state, send_service_user_token='true'),
        'placement': _auth(state),
        'cinder': _auth(state, catalog_info='volumev3::publicURL'),
        'glance': {'endpoint_override': state.url('glance')},
        'neutron': _auth(state, endpoint_override=state.url('neutron')),
        'conductor': {'workers': 1},
        'quota': {'instances': -1, 'cores': -1, 'ram': -1},
        'scheduler': {
            'workers': 1,
            'discover_hosts_in_cells_interval': 3,
        },
        'filter_scheduler': {
            'available_filters': [
                'nova.scheduler.filters.all_filters',
                'nova_diskplacer.scheduler.filter.DiskPlacementFilter',
            ],
            'enabled_filters': ','.join(SCHEDULER_FILTERS),
            'weight_classes': 'nova.scheduler.weights.all_weighers,'
            'nova_diskplacer.scheduler.weigher.DiskPlacementWeigher',
        },
        'vnc': {'enabled': 'false'},
        'workarounds': {'disable_rootwrap': 'true'},
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'oslo_messaging_rabbit': _rabbit(),
    }


def _nova_host(state: State, host: Host) -> Config:
    directory = state.host_dir(host.name)
    config = _nova_common(state)
    config['DEFAULT'] |= {
        'host': host.name,
        'state_path': f'{directory}/nova',
        'compute_driver': 'fake.FakeDriverWithoutFakeNodes',
    }
    config['oslo_concurrency'] = {'lock_path': f'{directory}/locks'}
    if host.guests == 'libvirt':
        socket = state.path / 'libvirt' / 'run' / 'libvirt-sock'
        config['DEFAULT']['compute_driver'] = 'libvirt.LibvirtDriver'
        config['libvirt'] = {
            'virt_type': 'qemu',
            'cpu_mode': 'none',
            'connection_uri': f'qemu+unix:///system?socket={socket}',
        }
    helper = _helper(f'--config-file {directory}/nova.conf')
    return {**config, 'nova_sys_admin': helper, 'privsep_osbrick': helper}


def _cinder(state: State) -> Config:
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'transport_url': _transport(state),
            'my_ip': '127.0.0.1',
            'auth_strategy': 'keystone',
            'state_path': f'{state.path}/cinder',
            'api_paste_config': shipped('cinder/api-paste.ini'),
            'resource_query_filters_file': shipped(
                'cinder/resource_filters.json'
            ),
            'glance_api_servers': state.url('glance'),
            'osapi_volume_workers': 1,
            'default_volume_type': 'vdisk',
            'scheduler_default_filters': ','.join(CINDER_FILTERS),
            'report_interval': 5,
            'service_down_time': 30,
            'backend_stats_polling_interval': 5,
            'quota_volumes': -1,
            'quota_gigabytes': -1,
        },
        'database': database(state, 'cinder'),
        'keystone_authtoken': _authtoken(state),
        'service_user': _auth(state, send_service_user_token='true'),
        'placement': _auth(state),
        'nova': _auth(state),
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'oslo_messaging_rabbit': _rabbit(),
    }


def _cinder_host(state: State, host: Host) -> Config:
    directory = state.host_dir(host.name)
    config = _cinder(state)
    config['DEFAULT'] |= {
        'host': host.name,
        'state_path': f'{directory}/cinder',
        'enabled_backends': 'vdisk',
    }
    helper = _helper(f'--config-file {directory}/cinder.conf')
    return {
        **config,
        'vdisk': {
            'volume_driver': 'cinder_vdisk_mapper.driver.VDiskMapperDriver',
            'volume_backend_name': 'vdisk',
            'vdisk_disk_root': str(state.disk_root(host.name)),
        },
        'oslo_concurrency': {'lock_path': f'{directory}/locks'},
        'coordination': {'backend_url': f'file://{directory}/cinder'},
        'cinder_sys_admin': helper,
        'privsep_osbrick': helper,
    }


def _agent(state: State, host: Host, compute_node: str) -> Config:
    directory = state.host_dir(host.name)
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'host': host.name,
            'transport_url': _transport(state),
        },
        'diskplacer': {
            'disk_root': str(state.disk_root(host.name)),
            'compute_node': compute_node,
        },
        'diskplacer_agent': {'report_interval': 5, 'watch_interval': 1},
        'placement': _auth(state),
        'oslo_concurrency': {'lock_path': f'{directory}/locks'},
        'oslo_messaging_rabbit': _rabbit(),
    }


def _rabbit() -> Section:
    return {'heartbeat_in_pthread': 'false'}


def openrc(state: State, project: str = 'admin') -> str:
    """Return shell lines that log in to the cloud as its administrator."""
    values: dict[str, typing.Any] = {
        'OS_AUTH_URL': state.url('keystone'),
        'OS_USERNAME': 'admin',
        'OS_PASSWORD': state.secret,
        'OS_PROJECT_NAME': project,
        'OS_USER_DOMAIN_ID': 'default',
        'OS_PROJECT_DOMAIN_ID': 'default',
        'OS_REGION_NAME': 'RegionOne',
        'OS_IDENTITY_API_VERSION': 3,
    }
    return ''.join(f'export {k}={v}\n' for k, v in values.items())
