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

"""diskplacer-manage profile: the catalogue, and flavors with profiles."""

import argparse
import collections.abc
import contextlib
import textwrap
import typing

from novaclient import exceptions as nova_exc
from oslo_config import cfg

from nova_diskplacer import exit_status
from nova_diskplacer import flavor
from nova_diskplacer.client import flavors
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

_VOLUME_TYPE = flavor.NAMESPACE + flavor.VOLUME_TYPE

# Characters of a line.
_WIDTH = 79


def register(subparsers: typing.Any) -> None:
    """Add the ``profile`` command to an argparse parser's subparsers."""
    profile = subparsers.add_parser(
        'profile', help='profiles of workloads, and flavors with profiles'
    )
    commands = profile.add_subparsers(dest='profile_command', required=True)

    command = shell.add_command(commands, 'list', _list, 'list the profiles')
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'show',
        _show,
        'show the settings of a profile and their sources',
    )
    command.add_argument('profile', metavar='PROFILE')
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'apply',
        _apply,
        'give flavors a profile',
        'Shows how the extra specs of the flavors change. Nothing is changed '
        'without --yes. Servers that exist keep the extra specs that they '
        'were built with until they are resized.',
    )
    command.add_argument('profile', metavar='PROFILE')
    _add_flavors(command, '+')
    command.add_argument(
        '--volume-type',
        metavar='TYPE',
        help='volume type of the vdisks of flavors and profiles without one '
        '(default: [diskplacer_api] volume_type)',
    )
    command.add_argument(
        '--yes', action='store_true', help='change the flavors'
    )

    command = shell.add_command(
        commands,
        'check',
        _check,
        'find flavors that contradict their profile',
        'Lists every flavor whose extra specs contradict its profile, or '
        'whose figures differ from the advice of the papers. The exit status '
        'is 3 if there is one.',
    )
    _add_flavors(command, '*')
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'diff',
        _diff,
        'compare flavors with a profile',
        'Compares all extra specs of a profile with those that the servers of '
        'a flavor get. The exit status is 3 if any differ.',
    )
    command.add_argument('profile', metavar='PROFILE')
    _add_flavors(command, '+')


def _add_flavors(command: argparse.ArgumentParser, how_many: str) -> None:
    command.add_argument(
        'flavors',
        metavar='FLAVOR',
        nargs=how_many,
        help='name or ID' + (' (default: all)' if how_many == '*' else ''),
    )
    cloud.add_arguments(command)


def _catalogue(conf: cfg.ConfigOpts) -> catalogue.Catalogue:
    return catalogue.load(conf.diskplacer.profile_dirs)


def _list(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    if args.format == 'json':
        shell.print_json(
            [
                {
                    'name': profile.name,
                    'aliases': profile.aliases,
                    'title': profile.title,
                }
                for profile in profiles.values()
            ]
        )
        return 0
    print(shell.make_table(*flavors.profile_table(profiles)))
    return 0


def _show(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profile = _catalogue(conf).find(args.profile)
    if args.format == 'json':
        shell.print_json(profile)
        return 0
    names = ', '.join((profile.name, *profile.aliases))
    print(textwrap.fill(f'{names}: {profile.title}', _WIDTH))
    print(textwrap.fill(profile.description, _WIDTH))
    columns, rows = flavors.settings_table(profile)
    print(shell.make_table(columns, rows, long=columns[1:]))
    sources = ' '.join(profile.sources.values())
    for paper, title in catalogue.PAPERS.items():
        if f'{paper} ' in sources:
            print(
                textwrap.fill(
                    f'{paper}: {title}', _WIDTH, subsequent_indent='    '
                )
            )
    return 0


def _apply(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    connection = cloud.connection(args)
    apply(
        connection,
        nova_flavors.read(connection, args.flavors),
        profiles.find(args.profile),
        profiles,
        args.volume_type or conf.diskplacer_api.volume_type,
        args.yes,
    )
    return 0


def apply(
    connection: typing.Any,
    chosen: collections.abc.Iterable[nova_flavors.NamedFlavor],
    profile: definitions.Profile,
    profiles: catalogue.Catalogue,
    volume_type: str | None,
    yes: bool,
) -> None:
    """Print how a profile changes flavors, and change them.

    :param volume_type: that of the vdisks of a flavor and profile without one.
    :param yes: change them; without it, they are shown.
    :raises DiskPlacerError: Nova does not change a flavor.
    """
    nova = cloud.nova_client(connection)

    def write(id_: str, change: flavors.Change) -> None:
        with cloud.convert_errors(f'flavor {change.flavor.name}'):
            nova_flavor = nova.flavors.get(id_)

            def unset(key: str) -> None:
                # by another operator, or a request whose answer was lost
                with contextlib.suppress(nova_exc.NotFound):
                    nova_flavor.unset_keys([key])

            change.write(unset, nova_flavor.set_keys)

    for line in nova_flavors.apply_profile(
        chosen, profile, profiles, volume_type, write if yes else None
    ):
        print(line)


def _check(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    chosen = _read_flavors(args)
    findings = [
        finding
        for flavor_ in chosen
        for finding in advice.check(flavor_, profiles)
    ]
    if args.format == 'json':
        shell.print_json(findings)
    elif findings:
        columns, rows = flavors.findings_table(findings)
        print(shell.make_table(columns, rows, long=columns[2:]))
    else:
        print(f'Nothing contradicts a profile in {len(chosen)} flavors.')
    return exit_status.of(findings)


def _diff(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    profile = profiles.find(args.profile)
    profile_specs = advice.profile_specs(profile)
    differ = False
    for flavor_ in _read_flavors(args):
        specs = {
            key: value
            for key, value in advice.effective_specs(
                flavor_.extra_specs, profiles
            ).items()
            if key in profile_specs
            # profiles leave the type to each cloud
            or (key.startswith(flavor.NAMESPACE) and key != _VOLUME_TYPE)
        }
        differ |= specs != profile_specs
        for line in flavors.diff(
            flavor_.name, f'profile {profile.name}', specs, profile_specs
        ):
            print(line)
    return exit_status.of(differ)


def _read_flavors(args: argparse.Namespace) -> list[advice.Flavor]:
    return [
        named.flavor
        for named in nova_flavors.read(cloud.connection(args), args.flavors)
    ]
