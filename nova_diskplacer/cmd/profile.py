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
import dataclasses
import difflib
import textwrap
import typing

from oslo_config import cfg

from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import shell
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue

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
        '--yes', action='store_true', help='change the flavors'
    )

    command = shell.add_command(
        commands,
        'check',
        _check,
        'find flavors that contradict their profile',
        'Lists every flavor whose extra specs contradict its profile, or '
        'whose figures differ from the advice of the papers. The exit status '
        'is 1 if there is one.',
    )
    _add_flavors(command, '*')
    shell.add_format(command)

    command = shell.add_command(
        commands,
        'diff',
        _diff,
        'compare flavors with a profile',
        'Compares all extra specs of a profile with those that the servers of '
        'a flavor get. The exit status is 1 if any differ.',
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
    profiles = _catalogue(conf).values()
    if args.format == 'json':
        shell.print_json(
            [
                {'name': one.name, 'aliases': one.aliases, 'title': one.title}
                for one in profiles
            ]
        )
        return 0
    rows = [(one.name, ', '.join(one.aliases), one.title) for one in profiles]
    print(shell.make_table(('Profile', 'Aliases', 'For'), rows))
    return 0


def _show(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profile = _catalogue(conf).find(args.profile)
    if args.format == 'json':
        shell.print_json(profile)
        return 0
    names = ', '.join((profile.name, *profile.aliases))
    print(textwrap.fill(f'{names}: {profile.title}', _WIDTH))
    print(textwrap.fill(profile.description, _WIDTH))
    rows = [
        (path, text(path, value), profile.sources.get(path, ''))
        for path, value in catalogue.settings(profile).items()
    ]
    columns = ('Setting', 'Value', 'Rests on')
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


def text(path: str, value: typing.Any) -> str:
    """Return the value of a setting, formatted for people."""
    if path.endswith('.recommended'):
        return advice.between(value)
    if path == 'guest.notes':
        return '\n'.join(value)
    return ', '.join(value) if isinstance(value, tuple) else str(value)


def _apply(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    profile = profiles.find(args.profile)
    changes = []
    for one in cloud.flavors(cloud.connect(args), args.flavors):
        before = cloud.extra_specs(one)
        changes.append(
            (one, before, advice.applied(profile, before, profiles))
        )
    for one, before, after in changes:
        _print_diff(one.name, f'with profile {profile.name}', before, after)
        for finding in advice.check(_flavor(one, after), profiles):
            source = f' ({finding.source})' if finding.source else ''
            print(f'# {finding.text}{source}')
    changes = [change for change in changes if change[1] != change[2]]
    if not changes:
        print('Nothing to change.')
    elif not args.yes:
        print('Nothing is changed without --yes.')
    else:
        for one, before, after in changes:
            with cloud.convert_errors(f'flavor {one.name}'):
                one.set_keys(dict(after.items() - before.items()))
                one.unset_keys([key for key in before if key not in after])
            print(f'Flavor {one.name} has profile {profile.name} now.')
    return 0


def _check(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    found = cloud.flavors(cloud.connect(args), args.flavors)
    findings = [
        finding
        for one in found
        for finding in advice.check(
            _flavor(one, cloud.extra_specs(one)), profiles
        )
    ]
    if args.format == 'json':
        shell.print_json(findings)
    elif findings:
        columns = ('Flavor', 'Profile', 'Finding', 'Rests on')
        rows = map(dataclasses.astuple, findings)
        print(shell.make_table(columns, rows, long=columns[2:]))
    else:
        print(f'Nothing contradicts a profile in {len(found)} flavors.')
    return int(bool(findings))


def _diff(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profiles = _catalogue(conf)
    profile = profiles.find(args.profile)
    wanted = advice.wanted(profile)
    differ = False
    for one in cloud.flavors(cloud.connect(args), args.flavors):
        specs = {
            key: value
            for key, value in advice.effective(
                cloud.extra_specs(one), profiles
            ).items()
            if key.startswith('diskplacer:') or key in wanted
        }
        differ |= specs != wanted
        _print_diff(one.name, f'profile {profile.name}', specs, wanted)
    return int(differ)


def _flavor(one: typing.Any, specs: dict[str, str]) -> advice.Flavor:
    return advice.Flavor(one.name, one.vcpus, one.ram, specs)


def _print_diff(
    name: str, what: str, before: dict[str, str], after: dict[str, str]
) -> None:
    old, new = (
        [f'{key}={value}' for key, value in sorted(specs.items())]
        for specs in (before, after)
    )
    for line in difflib.unified_diff(
        old, new, f'flavor {name}', what, n=1000, lineterm=''
    ):
        print(line)
