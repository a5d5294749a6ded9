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

"""openstack vdisk disk list and disk show."""

import argparse
import typing

from nova_diskplacer.client import cloud
from nova_diskplacer.client import disk_views
from nova_diskplacer.client import map_facts
from nova_diskplacer.client import placement_disks
from nova_diskplacer.client.osc import base

_Parser = argparse.ArgumentParser
_Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


class ListDisks(base.Lister):
    """List the disks of all hosts, their health and their space."""

    def add_arguments(self, parser: _Parser) -> None:
        base.add_host(parser)
        parser.add_argument(
            '--long', action='store_true', help='show all UUIDs'
        )

    def take_action(self, args: argparse.Namespace) -> _Table:
        client = cloud.placement(self.connection)
        disks, _ = placement_disks.read(
            client, placement_disks.choose(client, args.host)
        )
        return disk_views.disk_table(disks, args.long)


class ShowDisk(base.ShowOne):
    """Show a disk, and the vdisks and claims on it."""

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument(
            'disk', metavar='DISK', help='UUID of the disk, or its start'
        )

    def take_action(
        self, args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
        facts = map_facts.read(self.connection, disk=args.disk)
        (disk,) = facts.disks.values()
        return disk_views.disk_fields(facts, disk)
