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


"""tempest.conf: what there is on the cloud, and what it can do."""

import pathlib

from tools.minicloud import ini
from tools.minicloud.cloud import Cloud

# Of a host with disks of two media, so of two backends.
VENDOR = 'nova-diskplacer'
PROTOCOL = 'gpfs'


def write(
    cloud: Cloud, workspace: pathlib.Path, flavors: tuple[str, str]
) -> None:
    """Write ``etc/tempest.conf`` below ``workspace``.

    :param flavors: names of the flavor of servers, and of the one that they
        are resized to.
    """
    ini.write(
        workspace / 'etc' / 'tempest.conf', _config(cloud, workspace, flavors)
    )


def _config(
    cloud: Cloud, workspace: pathlib.Path, flavors: tuple[str, str]
) -> ini.Config:
    state = cloud.state
    host = cloud.hosts[0]
    several = len(cloud.hosts) > 1
    flavor, resized = (cloud.flavors[name] for name in flavors)
    return {
        'DEFAULT': {
            'log_dir': f'{workspace}/logs',
            'log_file': 'tempest.log',
            'debug': 'true',
        },
        'oslo_concurrency': {'lock_path': f'{workspace}/locks'},
        'auth': {
            'admin_username': 'admin',
            'admin_password': state.secret,
            'admin_project_name': 'admin',
            'admin_domain_name': 'Default',
            'use_dynamic_credentials': 'true',
            # there are no networks: servers have none
            'create_isolated_networks': 'false',
        },
        'identity': {
            'uri_v3': state.url('keystone'),
            'auth_version': 'v3',
            'v3_endpoint_type': 'public',
        },
        'service_available': {
            'cinder': 'true',
            'glance': 'true',
            'nova': 'true',
            'neutron': 'true',
            'swift': 'false',
            'barbican': 'false',
        },
        'validation': {'run_validation': 'false'},
        'compute': {
            'image_ref': cloud.image,
            'image_ref_alt': cloud.image,
            'flavor_ref': flavor,
            'flavor_ref_alt': resized,
            'min_compute_nodes': len(cloud.hosts),
            'build_timeout': 300,
            'volume_device_name': 'vdb',
            'max_microversion': 'latest',
        },
        'compute-feature-enabled': {
            'attach_encrypted_volume': 'true',
            'volume_multiattach': 'false',
            'console_output': 'true',
            'live_migration': several,
            'cold_migration': several,
            'resize': several,
            'volume_backed_live_migration': several,
            # a host that is named before 2.30 is forced: Nova refuses that for
            # servers with claims of several resource providers
            'can_migrate_between_any_hosts': 'false',
            'block_migration_for_live_migration': several,
        },
        'volume': {
            'catalog_type': 'volumev3',
            'max_microversion': 'latest',
            'build_timeout': 300,
            'backend_names': ','.join(host.backends),
            'volume_type': 'vdisk',
            'vendor_name': VENDOR,
            'storage_protocol': PROTOCOL,
            'disk_format': 'raw,qcow2',
            'backup_driver': 'posix',
            'manage_volume_ref': 'source-name,unmanaged-%s',
            'manage_snapshot_ref': 'source-name,unmanaged-%s',
        },
        'volume-feature-enabled': {
            'multi_backend': len(host.backends) > 1,
            'backup': 'true',
            'snapshot': 'true',
            'clone': 'true',
            'manage_volume': 'true',
            'manage_snapshot': 'true',
            'extend_attached_volume': 'false',
            'extend_attached_encrypted_volume': 'false',
            'extend_volume_with_snapshot': 'true',
            'enable_volume_image_dep_tests': 'true',
            'volume_revert': 'true',
            'consistency_group': 'true',
            'concurrency_tests': 'true',
            'replication': 'false',
        },
    }
