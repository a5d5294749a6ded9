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


"""The configuration files of Cinder's services."""

import hashlib

from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud.state import Host
from tools.minicloud.state import State

CINDER_FILTERS = (
    'AvailabilityZoneFilter',
    'CapabilitiesFilter',
    'VDiskLocalityFilter',
)


def config(state: State) -> ini.Config:
    """Return what all of Cinder's services are told."""
    return {
        'DEFAULT': {
            'use_stderr': 'true',
            'transport_url': ini.transport(state),
            'my_ip': '127.0.0.1',
            'auth_strategy': 'keystone',
            'state_path': f'{state.path}/cinder',
            'api_paste_config': ini.shipped('cinder/api-paste.ini'),
            'resource_query_filters_file': ini.shipped(
                'cinder/resource_filters.json'
            ),
            'glance_api_servers': state.url('glance'),
            'osapi_volume_workers': 1,
            'default_volume_type': 'vdisk',
            'scheduler_default_filters': ','.join(CINDER_FILTERS),
            # a cloud that nobody uses takes most of its processor time for
            # what services do again and again
            'report_interval': ini.interval(10),
            'service_down_time': state.volumes_down,
            'rpc_response_timeout': ini.ANSWER,
            # when cinder-volume tells the scheduler what its backends have:
            # the first time may be before the agents know it
            'periodic_fuzzy_delay': 0,
            'periodic_interval': ini.interval(40),
            'backend_stats_polling_interval': ini.interval(10),
            # ten servers of four vdisks, and as many again
            'quota_volumes': 80,
            'quota_gigabytes': 1000,
            'quota_snapshots': -1,
            'quota_backups': -1,
            'quota_backup_gigabytes': -1,
            'quota_groups': -1,
            'enable_force_upload': 'true',
        },
        'database': ini.database(state, 'cinder'),
        'keystone_authtoken': ini.authtoken(state),
        'service_user': ini.auth(state, send_service_user_token='true'),
        'placement': ini.auth(state),
        'nova': ini.auth(state),
        'key_manager': key_manager(state, 'cinder'),
        'oslo_concurrency': {'lock_path': f'{state.path}/locks'},
        'oslo_messaging_notifications': {'driver': 'noop'},
        'oslo_messaging_rabbit': ini.rabbit(),
    }


def key_manager(state: State, service: str) -> ini.Section:
    """Have one key for all encrypted volumes: a cloud lives for minutes."""
    return {
        'backend': f'{service}.keymgr.conf_key_mgr.ConfKeyManager',
        'fixed_key': hashlib.sha256(state.secret.encode()).hexdigest(),
    }


def host_config(state: State, host: Host) -> ini.Config:
    """Return what cinder-volume and cinder-backup of a host are told."""
    directory = state.host_dir(host.name)
    found = config(state)
    found['DEFAULT'] |= {
        'host': host.name,
        'state_path': f'{directory}/cinder',
        'enabled_backends': ','.join(host.backends),
        'backup_driver': 'cinder.backup.drivers.posix.PosixBackupDriver',
        'backup_posix_path': f'{state.path}/backups',
        # a buffer of this size is read at once: keep it small
        'backup_file_size': 32 * 2**20,
    }
    helper = ini.helper(f'--config-file {directory}/cinder.conf')
    for name, medium in host.backends.items():
        found[name] = {
            'volume_driver': 'cinder_vdisk_mapper.driver.VDiskMapperDriver',
            'volume_backend_name': name,
            'vdisk_disk_root': str(state.disk_root(host.name)),
            'vdisk_media': medium,
            'report_discard_supported': 'true',
            'vdisk_backend': 'lvm' if host.lvm else 'filesystem',
        }
        if host.moves:
            found[name] |= {
                'vdisk_connection': 'block',
                'target_helper': 'lioadm',
                'target_ip_address': '127.0.0.1',
                # its sessions are known by it
                'target_prefix': f'iqn.2026-11.org.example.{state.token}:',
            }
    return {
        **found,
        'diskplacer': {
            'compute_node': hypervisor.compute_node(state, host),
            'lock_dir': state.lock_dir(host.name),
        },
        'oslo_concurrency': {'lock_path': f'{directory}/locks'},
        'coordination': {'backend_url': f'file://{directory}/cinder'},
        'cinder_sys_admin': helper,
        'privsep_osbrick': helper,
    }
