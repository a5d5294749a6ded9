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
import dataclasses
import difflib
import json
import textwrap
import typing

import prettytable
from oslo_config import cfg

from nova_diskplacer.cmd import cloud
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue

# Characters that text may take on a line, in a column and elsewhere.
_COLUMN = 45
_WIDTH = 79


def register(subparsers: typing.Any) -> None:
    """Add the ``profile`` command to an argparse parser's subparsers."""
    profile = subparsers.add_parser(
        'profile', help='profiles of workloads, and flavors with profiles'
    )
    commands = profile.add_subparsers(dest='profile_command', required=True)

    command = _command(commands, 'list', _list, 'list the profiles')
    _add_format(command)

    command = _command(
        commands,
        'show',
        _show,
        'show the settings of a profile and their sources',
    )
    command.add_argument('profile', metavar='PROFILE')
    _add_format(command)

    command = _command(
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

    command = _command(
        commands,
        'check',
        _check,
        'find flavors that contradict their profile',
        'Lists every flavor whose extra specs contradict its profile, or '
        'whose figures differ from the advice of the papers. The exit status '
        'is 1 if there is one.',
    )
    _add_flavors(command, '*')
    _add_format(command)

    command = _command(
        commands,
        'diff',
        _diff,
        'compare flavors with a profile',
        'Compares all extra specs of a profile with those that the servers of '
        'a flavor get. The exit status is 1 if any differ.',
    )
    command.add_argument('profile', metavar='PROFILE')
    _add_flavors(command, '+')


def _command(
    commands: typing.Any,
    name: str,
    handler: collections.abc.Callable[..., int],
    summary: str,
    description: str | None = None,
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=description or summary.capitalize()
    )
    command.set_defaults(handler=handler)
    return command


def _add_format(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        '--format', choices=('table', 'json'), default='table'
    )


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
        fields = ('name', 'aliases', 'title')
        _print_json(
            [
                {field: getattr(profile, field) for field in fields}
                for profile in profiles
            ]
        )
        return 0
    table = _table('Profile', 'Aliases', 'For')
    for profile in profiles:
        table.add_row(
            [profile.name, ', '.join(profile.aliases), profile.title]
        )
    print(table)
    return 0


def _show(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    profile = _catalogue(conf).find(args.profile)
    if args.format == 'json':
        _print_json(dataclasses.asdict(profile))
        return 0
    names = ', '.join((profile.name, *profile.aliases))
    print(textwrap.fill(f'{names}: {profile.title}', _WIDTH))
    print(textwrap.fill(profile.description, _WIDTH))
    table = _table('Setting', 'Value', 'Rests on')
    table.max_width['Value'] = table.max_width['Rests on'] = _COLUMN
    for path, value in catalogue.settings(profile).items():
        table.add_row([path, text(path, value), profile.sources.get(path, '')])
    print(table)
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
    found = cloud.flavors(cloud.connect(args), args.flavors)
    changes = [
        (one, advice.applied(profile, cloud.extra_specs(one), profiles))
        for one in found
    ]
    for one, specs in changes:
        _print_diff(
            one.name,
            f'with profile {profile.name}',
            cloud.extra_specs(one),
            specs,
        )
        findings = advice.check(_flavor(one, specs), profiles)
        for finding in findings:
            print(f'# {finding.text}{_because(finding)}')
    changes = [
        (one, specs)
        for one, specs in changes
        if specs != cloud.extra_specs(one)
    ]
    if not changes:
        print('Nothing to change.')
    elif not args.yes:
        print('Nothing is changed without --yes.')
    else:
        for one, specs in changes:
            _change(one, specs)
            print(f'Flavor {one.name} has profile {profile.name} now.')
    return 0


def _change(one: typing.Any, specs: dict[str, str]) -> None:
    before = cloud.extra_specs(one)
    with cloud.convert_errors(f'flavor {one.name}'):
        one.set_keys({k: v for k, v in specs.items() if before.get(k) != v})
        one.unset_keys([key for key in before if key not in specs])


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
        _print_json([dataclasses.asdict(finding) for finding in findings])
    elif findings:
        table = _table('Flavor', 'Profile', 'Finding', 'Rests on')
        table.max_width['Finding'] = table.max_width['Rests on'] = _COLUMN
        for finding in findings:
            table.add_row(dataclasses.astuple(finding))
        print(table)
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


def _because(finding: advice.Finding) -> str:
    return f' ({finding.source})' if finding.source else ''


def _flavor(one: typing.Any, specs: dict[str, str]) -> advice.Flavor:
    return advice.Flavor(one.name, one.vcpus, one.ram, specs)


def _print_diff(
    name: str, what: str, before: dict[str, str], after: dict[str, str]
) -> None:
    for line in difflib.unified_diff(
        _lines(before),
        _lines(after),
        f'flavor {name}',
        what,
        n=1000,
        lineterm='',
    ):
        print(line)


def _lines(specs: dict[str, str]) -> list[str]:
    return [f'{key}={value}' for key, value in sorted(specs.items())]


def _print_json(fields: typing.Any) -> None:
    print(json.dumps(fields, indent=2))


def _table(*names: str) -> prettytable.PrettyTable:
    return prettytable.PrettyTable(names, align='l')
