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

"""diskplacer-manage guest-config: user data for a server with vdisks."""

import argparse
import os
import typing

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.cmd import shell
from nova_diskplacer.guest import config
from nova_diskplacer.guest import frameworks
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import catalogue

_NODE = 'OS-EXT-SRV-ATTR:hypervisor_hostname'

_FORMATS = {'user-data': config.user_data, 'script': config.script}


def register(subparsers: typing.Any) -> None:
    """Add the ``guest-config`` command to an argparse parser's subparsers."""
    parser = shell.add_command(
        subparsers,
        'guest-config',
        _guest_config,
        'generate user data that makes a server use its vdisks',
        'Prints cloud-init user data that formats and mounts the '
        'vdisks of a server and configures a framework to spread its data '
        'over them. It does not touch a disk with any other signature.',
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        '--server',
        metavar='ID',
        help='for this server and the vdisks that are attached to it now',
    )
    which.add_argument(
        '--flavor',
        metavar='FLAVOR',
        help='for any server of this flavor, by name or ID, that boots with '
        'the blank volumes that the flavor has room for',
    )
    parser.add_argument(
        '--for',
        dest='framework',
        required=True,
        choices=sorted(frameworks.FRAMEWORKS),
        help='framework that uses the directories; plain: only format and '
        'mount',
    )
    parser.add_argument(
        '--filesystem',
        choices=config.FILESYSTEMS,
        help="default: the advice of the flavor's profile, or " + config.XFS,
    )
    parser.add_argument(
        '--mount-root',
        metavar='DIRECTORY',
        default=config.MOUNT_ROOT,
        help='each vdisk is mounted below it, by its serial (default: '
        '%(default)s)',
    )
    parser.add_argument(
        '--conf-dir',
        metavar='DIRECTORY',
        help='directory of the configuration of the framework (default: '
        + ', '.join(
            f'{os.path.dirname(directories[0].file)} for {name}'
            for name, directories in sorted(frameworks.FRAMEWORKS.items())
            if directories
        )
        + ')',
    )
    parser.add_argument(
        '--owner',
        metavar='USER[:GROUP]',
        help='owner of the directories (default: '
        + ', '.join(
            f'{directory.owner} for {directory.name}'
            for directories in frameworks.FRAMEWORKS.values()
            for directory in directories
        )
        + ')',
    )
    parser.add_argument(
        '--format',
        choices=sorted(_FORMATS, reverse=True),
        default='user-data',
        help='script: only the script of the user data, for a running server '
        '(default: %(default)s)',
    )
    map_.add_timeout(parser)
    cloud.add_arguments(parser)


def _guest_config(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = catalogue.load(conf.diskplacer.profile_dirs)
    nova = cloud.connect(args)
    vdisks: dict[str, typing.Any]
    if args.server:
        with cloud.convert_errors(f'server {args.server}'):
            server = nova.servers.get(args.server).to_dict()
            attached = nova.volumes.get_server_volumes(args.server)
        specs = server['flavor'].get('extra_specs', {})
        vdisks = {'volumes': _vdisks(conf, args, server, attached)}
    else:
        (found,) = cloud.flavors(nova, [args.flavor])
        specs = cloud.extra_specs(found)
        request = _parse(args.flavor, specs, profiles)
        vdisks = {'count': request.vdisks, 'gib': request.vdisk_gb}
    name = specs.get(flavor.NAMESPACE + flavor.PROFILE)
    advice = profiles.find(name).guest if name else catalogue.Guest()
    queue = {
        'scheduler': advice.scheduler,
        'read_ahead_kb': advice.read_ahead_kb,
    }
    settings = config.settings(
        args.framework,
        **vdisks,
        filesystem=args.filesystem or advice.filesystem or config.XFS,
        mount_options=advice.mount_options,
        queue={
            key: value for key, value in queue.items() if value is not None
        },
        mount_root=args.mount_root,
        conf_dir=args.conf_dir,
        owner=args.owner,
    )
    print(_FORMATS[args.format](settings), end='')
    return 0


def _vdisks(
    conf: cfg.ConfigOpts,
    args: argparse.Namespace,
    server: dict[str, typing.Any],
    attached: list[typing.Any],
) -> tuple[str, ...]:
    """Return the volumes of a server that are vdisks.

    The agent of its host reports them.

    :raises DiskPlacerError: none is, or the agent does not answer.
    """
    where = f'server {args.server}: '
    node = server.get(_NODE)
    if not node:
        raise exception.DiskPlacerError(
            f'{where}Nova does not show its compute node: it has none, or the '
            'account may not see it'
        )
    client = placement_client.PlacementClient.from_conf(conf)
    root = client.provider_by_name(node)
    if root is None:
        raise exception.DiskPlacerError(
            f'{where}its compute node {node} is not in Placement'
        )
    heard = map_.collect_reports(common.transport(), {root.uuid}, args.timeout)
    if root.uuid not in heard:
        raise exception.DiskPlacerError(
            f'{where}the agent of its compute node {node} did not answer '
            f'within {args.timeout:g} s, see --timeout'
        )
    here = {
        vdisk['volume_id']
        for disk in heard[root.uuid]['disks']
        for vdisk in disk['vdisks']
    }
    found = tuple(one.volumeId for one in attached if one.volumeId in here)
    if not found:
        raise exception.DiskPlacerError(
            f'{where}none of its {len(attached)} volumes is a vdisk'
        )
    return found


def _parse(
    name: str, specs: dict[str, str], profiles: catalogue.Catalogue
) -> flavor.VDiskRequest:
    """Return the vdisks that a server of a flavor boots with.

    :raises DiskPlacerError: there are none, or the extra specs are wrong.
    """
    try:
        request = flavor.parse(specs, profiles)
    except ValueError as error:
        raise exception.DiskPlacerError(f'flavor {name}: {error}') from None
    if request is None:
        raise exception.DiskPlacerError(
            f'flavor {name} has no vdisks: {flavor.NAMESPACE}vdisks and '
            f'{flavor.NAMESPACE}vdisk_gb are not set'
        )
    return request
