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

"""openstack vdisk list, check and capacity."""

import argparse
import datetime
import logging
import typing

from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.client import capacity
from nova_diskplacer.client import cloud
from nova_diskplacer.client import disk_views
from nova_diskplacer.client import flavors
from nova_diskplacer.client import fleet
from nova_diskplacer.client import fleet_metrics
from nova_diskplacer.client import map_facts
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.client import placement_disks
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.client import views
from nova_diskplacer.client.osc import base
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue

LOG = logging.getLogger(__name__)

_Parser = argparse.ArgumentParser
_Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


class ListVDisks(base.Lister):
    """List the vdisks of servers and the disks that they are on.

    The exit status is 3 if space is claimed for long without vdisks.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument(
            '--server',
            metavar='SERVER',
            help='only this server, by name or ID',
        )
        base.add_host(parser)
        parser.add_argument(
            '--status', choices=vdisk_map.STATUSES, help='only these vdisks'
        )
        parser.add_argument(
            '--long',
            action='store_true',
            help='show a row for each vdisk, with all UUIDs',
        )
        views.add_options(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        facts = map_facts.read(self.connection, args.host)
        rows, findings = views.make_map(facts, args, args.status)
        self.status = views.status_of(findings)
        for line in views.finding_lines(findings):
            LOG.warning('%s', line)
        names, cells = views.table(facts, rows, args.long)
        return names, [tuple(map(base.column, row)) for row in cells]


class Check(base.Lister):
    """Find what is wrong with disks, vdisks, claims and flavors.

    The exit status is 3 if something is.
    """

    def add_arguments(self, parser: _Parser) -> None:
        base.add_host(parser)
        views.add_pending(parser)
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        facts = map_facts.read(self.connection, args.host)
        findings = vdisk_map.findings(
            facts,
            vdisk_map.entries(facts),
            datetime.datetime.now(datetime.UTC),
            args.pending,
        )
        profiles = base.load_profiles(args)
        for named in nova_flavors.read(self.connection):
            for problem in advice.check(named.flavor, profiles):
                findings.append(
                    vdisk_map.Finding('flavor', '', named.name, problem.text)
                )
        self.status = exit_status.of(findings)
        return ('Kind', 'Host', 'Subject', 'Finding'), [
            (finding.kind, finding.host, finding.subject, finding.text)
            for finding in findings
        ]


class Capacity(base.Lister):
    """Show how many more servers find disks.

    With --flavor, each host is shown, those with the least space first.
    Without, all hosts and each aggregate are shown with every flavor that has
    vdisks: the share of the space that servers claim, the largest vdisk that
    fits a disk, how many servers fit and on how many hosts, and the free GiB
    that none of them can use. Only disks are counted.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument(
            '--flavor',
            metavar='FLAVOR',
            help='only this flavor with vdisks, by name or ID',
        )
        parser.add_argument(
            '--metrics',
            metavar='FILE',
            help='write the figures of all hosts and aggregates to FILE, too, '
            'for the textfile collector of node_exporter; not with --flavor',
        )
        base.add_host(parser)
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        profiles = base.load_profiles(args)
        client = cloud.placement(self.connection)
        if not args.flavor:
            return self._fleet(args, client, profiles)
        if args.metrics:
            raise exception.DiskPlacerError(
                '--metrics: is for all flavors, not with --flavor'
            )
        (named,) = nova_flavors.read(self.connection, [args.flavor])
        request = flavors.request_of(
            named.name, named.flavor.extra_specs, profiles
        )
        disks = placement_disks.read_room(
            client, placement_disks.choose(client, args.host)
        )
        hosts = capacity.capacities(disks, request)
        return ('Host', 'Disks', 'VDisks', 'Servers', 'Limit'), [
            (host.host, host.disks, host.slots, host.servers, host.limit)
            for host in sorted(hosts, key=lambda host: host.servers)
        ]

    def _fleet(
        self,
        args: argparse.Namespace,
        client: placement_client.PlacementClient,
        profiles: catalogue.Catalogue,
    ) -> _Table:
        requests = flavors.requests_of(
            (named.flavor for named in nova_flavors.read(self.connection)),
            profiles,
        )
        disks = placement_disks.read_space(
            client, placement_disks.choose(client, args.host)
        )
        groups = fleet.of_aggregates(
            disks, cloud.read_aggregates(self.connection)
        )
        spaces = {name: fleet.space(disks) for name, disks in groups.items()}
        rooms = {
            (name, flavor): fleet.room(disks, request)
            for name, disks in groups.items()
            for flavor, request in requests.items()
        }
        if args.metrics:
            fleet_metrics.write(args.metrics, spaces, rooms)
        return disk_views.fleet_table(spaces, rooms)
