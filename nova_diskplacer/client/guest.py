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

"""User data for servers with vdisks, for both command lines."""

import argparse
import dataclasses
import os
import typing

from nova_diskplacer import exception
from nova_diskplacer import flavor
from nova_diskplacer.client import cinder_volumes
from nova_diskplacer.client import cloud
from nova_diskplacer.client import flavors
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.guest import config
from nova_diskplacer.guest import frameworks
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

FORMATS = {'user-data': config.user_data, 'script': config.script}


def add_options(parser: argparse.ArgumentParser, format_option: str) -> None:
    """Add the options for the server or flavor, and for the user data.

    :param format_option: name of the option for user data or script.
    """
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
        '--layout',
        choices=config.LAYOUTS,
        default=config.SEPARATE,
        help=f'{config.SEPARATE}: a filesystem on each vdisk; '
        f'{config.STRIPE}: one filesystem on a stripe (RAID 0) of all vdisks, '
        'for software that uses one directory; the failure of one disk '
        'destroys it (default: %(default)s)',
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
        help='each vdisk is mounted below it, by its serial, or the stripe '
        'as stripe (default: %(default)s)',
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
        format_option,
        dest='guest_format',
        choices=sorted(FORMATS, reverse=True),
        default='user-data',
        help='script: only the script of the user data, for a running server '
        '(default: %(default)s)',
    )


def generate(
    args: argparse.Namespace,
    connection: cloud.Connection,
    profiles: catalogue.Catalogue,
) -> str:
    """Return user data or a script, for a flavor or for a server.

    :param args: the options of :func:`add_options`.
    :raises DiskPlacerError: there is no such flavor or server, it has no
        vdisks, an option or an extra spec is wrong, or an API does not answer.
    """
    if args.server:
        server_specs, volumes = _read_server(connection, args.server)
        return _text(args, server_specs, profiles, volumes=volumes)
    (named,) = nova_flavors.read(connection, [args.flavor])
    specs = named.flavor.extra_specs
    request = flavors.request_of(named.name, specs, profiles)
    return _text(
        args, specs, profiles, count=request.vdisks, gib=request.vdisk_gb
    )


def _read_server(
    connection: cloud.Connection, name_or_id: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the extra specs of a server's flavor and its vdisks' volumes.

    :raises DiskPlacerError: there is no such server, none of its volumes is a
        vdisk, or an API does not answer.
    """
    disks = {disk.uuid for disk in cloud.placement(connection).disks()}
    with cloud.convert_errors(f'server {name_or_id}'):
        server = connection.compute.find_server(
            name_or_id, ignore_missing=False, all_projects=True
        )
        server = connection.compute.get_server(server['id'])
        volumes = [
            connection.block_storage.get_volume(attached['id'])
            for attached in server['attached_volumes'] or ()
        ]
    volume_ids = tuple(
        volume['id']
        for volume in volumes
        if not disks.isdisjoint(cinder_volumes.location_of(volume))
    )
    if not volume_ids:
        raise exception.DiskPlacerError(
            f'server {name_or_id}: none of its {len(volumes)} volumes is a '
            'vdisk'
        )
    return dict(server['flavor']['extra_specs'] or {}), volume_ids


def _text(
    args: argparse.Namespace,
    specs: definitions.Specs,
    profiles: catalogue.Catalogue,
    **vdisks: typing.Any,
) -> str:
    name = specs.get(flavor.NAMESPACE + flavor.PROFILE)
    advice = profiles.find(name).guest if name else definitions.Guest()
    if args.filesystem:
        advice = dataclasses.replace(advice, filesystem=args.filesystem)
    settings = config.settings(
        args.framework,
        **vdisks,
        advice=advice,
        layout=args.layout,
        mount_root=args.mount_root,
        conf_dir=args.conf_dir,
        owner=args.owner,
    )
    return FORMATS[args.guest_format](settings)
