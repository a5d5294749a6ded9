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

"""openstack vdisk flavor, profile and guest-config."""

import argparse
import typing

from nova_diskplacer import exit_status
from nova_diskplacer.client import flavors
from nova_diskplacer.client import guest
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.client.osc import base
from nova_diskplacer.profiles import advice

_Parser = argparse.ArgumentParser
_Table = tuple[tuple[str, ...], list[tuple[typing.Any, ...]]]


class ListFlavors(base.Lister):
    """List the flavors whose servers get vdisks."""

    def add_arguments(self, parser: _Parser) -> None:
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        profiles = base.load_profiles(args)
        return flavors.table(
            [named.flavor for named in nova_flavors.read(self.connection)],
            profiles,
        )


class ShowFlavor(base.ShowOne):
    """Show what the disks of a flavor's servers are like.

    These are the flavor's extra specs, filled in by its profile.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument('flavor', metavar='FLAVOR', help='name or ID')
        base.add_profile_dirs(parser)

    def take_action(
        self, args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
        (named,) = nova_flavors.read(self.connection, [args.flavor])
        return flavors.fields(named.flavor, base.load_profiles(args))


class ListProfiles(base.Lister):
    """List the profiles of workloads."""

    auth_required = False

    def add_arguments(self, parser: _Parser) -> None:
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        return flavors.profile_table(base.load_profiles(args))


class ShowProfile(base.Lister):
    """Show the settings of a profile and their sources."""

    auth_required = False

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument('profile', metavar='PROFILE')
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        return flavors.settings_table(
            base.load_profiles(args).find(args.profile)
        )


class ApplyProfile(base.Command):
    """Give flavors a profile.

    Shows how the extra specs of the flavors change. Nothing is changed
    without --yes. Servers that exist keep the extra specs that they were
    built with until they are resized.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument('profile', metavar='PROFILE')
        parser.add_argument(
            'flavors', metavar='FLAVOR', nargs='+', help='name or ID'
        )
        parser.add_argument(
            '--volume-type',
            metavar='TYPE',
            help='volume type of the vdisks of flavors and profiles without '
            'one',
        )
        parser.add_argument(
            '--yes', action='store_true', help='change the flavors'
        )
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        profiles = base.load_profiles(args)
        profile = profiles.find(args.profile)
        lines = nova_flavors.apply_profile(
            nova_flavors.read(self.connection, args.flavors),
            profile,
            profiles,
            args.volume_type,
            self._write if args.yes else None,
        )
        for line in lines:
            self.app.stdout.write(line + '\n')

    def _write(self, id_: str, change: flavors.Change) -> None:
        nova_flavors.write_specs(self.connection, id_, change)


class CheckProfiles(base.Lister):
    """Find flavors that contradict their profile.

    The exit status is 3 if there is one.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument(
            'flavors',
            metavar='FLAVOR',
            nargs='*',
            help='name or ID (default: all)',
        )
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> _Table:
        profiles = base.load_profiles(args)
        findings = [
            finding
            for named in nova_flavors.read(self.connection, args.flavors)
            for finding in advice.check(named.flavor, profiles)
        ]
        self.status = exit_status.of(findings)
        return flavors.findings_table(findings)


class GuestConfig(base.Command):
    """Generate user data that makes a server use its vdisks.

    Prints cloud-init user data that formats and mounts the vdisks of a server
    and configures a framework to spread its data over them. It does not touch
    a disk with any other signature.
    """

    def add_arguments(self, parser: _Parser) -> None:
        guest.add_options(parser, '--format')
        base.add_profile_dirs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        self.app.stdout.write(
            guest.generate(args, self.connection, base.load_profiles(args))
        )
