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
import typing

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.client import guest
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.cmd import shell
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import catalogue

_NODE = 'OS-EXT-SRV-ATTR:hypervisor_hostname'


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
    guest.add_options(parser, '--format')
    map_.add_timeout(parser)
    cloud.add_arguments(parser)


def _guest_config(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = catalogue.load(conf.diskplacer.profile_dirs)
    nova = cloud.connect(args)
    if args.server:
        with cloud.convert_errors(f'server {args.server}'):
            server = nova.servers.get(args.server).to_dict()
            attached = nova.volumes.get_server_volumes(args.server)
        text = guest.of_server(
            args,
            server['flavor'].get('extra_specs', {}),
            _vdisks(conf, args, server, attached),
            profiles,
        )
    else:
        (found,) = cloud.flavors(nova, [args.flavor])
        text = guest.of_flavor(
            args, args.flavor, cloud.extra_specs(found), profiles
        )
    print(text, end='')
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
    client = placement_client.PlacementClient.from_conf(conf, patient=False)
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
