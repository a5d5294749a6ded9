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

"""diskplacer-manage sweep report and choose: conclusions from results.

Both only read results, on any machine; choose may write a profile and change
flavors.
"""

import argparse
import collections.abc
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import typing

from oslo_config import cfg

from diskplacer_measure.report import contents
from diskplacer_measure.report import page
from diskplacer_measure.sweep import arm_comparison
from diskplacer_measure.sweep import choose
from diskplacer_measure.sweep import choose_view
from diskplacer_measure.sweep import model
from diskplacer_measure.sweep import profile_changes
from diskplacer_measure.sweep import results
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import profile as profile_command
from nova_diskplacer.cmd import shell
from nova_diskplacer.host import files
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions
from nova_diskplacer.profiles import profile_files

# Characters of a line.
_WIDTH = 79

_Changed = tuple[definitions.Profile, list[profile_changes.Change]]


def register(commands: typing.Any) -> None:
    """Add the commands to the subparsers of ``diskplacer-manage sweep``."""
    command = shell.add_command(
        commands,
        'report',
        _report,
        'draw the results beside the claims of the papers',
        'Draws the figures of the papers P0 and P3 with the results of a run, '
        'and says of each claim of theirs that a sweep can judge whether it '
        'is reproduced, refuted or not told apart, with the 95 % confidence '
        'interval.',
    )
    command.add_argument('results', metavar='RESULTS')
    command.add_argument(
        '--output', metavar='FILE', help='write into this file'
    )
    command.add_argument('--format', choices=('html', 'json'), default='html')

    command = shell.add_command(
        commands,
        'choose',
        _choose,
        'find the best shapes and settings of servers',
        'Lists, for each workload, the shapes and settings of servers that '
        'the results of a run do not tell apart from the best: for a server '
        'alone, and for all servers of the host together. What is best for '
        'one need not be best for the other.',
    )
    command.add_argument('results', metavar='RESULTS')
    command.add_argument(
        '--workload',
        choices=sorted(arm_comparison.WORKLOADS),
        help='the profile of the workload (default: all)',
    )
    command.add_argument(
        '--objective',
        choices=tuple(choose.OBJECTIVES),
        default='host',
        help='whose throughput profiles are written for: that of a server '
        'alone, or of the host (default: %(default)s)',
    )
    command.add_argument(
        '--profile-dir',
        metavar='DIR',
        help='write the profiles that the results change into this directory, '
        'one of [diskplacer] profile_dirs, where they replace profiles of '
        'the same names',
    )
    command.add_argument(
        '--apply',
        nargs='+',
        default=[],
        metavar='FLAVOR',
        help='with --workload and --profile-dir: give flavors, by name or ID, '
        'the profile; nothing is changed without --yes',
    )
    command.add_argument(
        '--yes', action='store_true', help='change the flavors of --apply'
    )
    cloud.add_arguments(command)
    shell.add_format(command)


def _report(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    made = contents.make(results.read(args.results))
    text = (
        page.draw(made)
        if args.format == 'html'
        else json.dumps(contents.data(made), indent=2) + '\n'
    )
    if args.output:
        with files.disk_errors(args.output):
            files.replace(args.output, text, durable=False)
    else:
        sys.stdout.write(text)
    return exit_status.OK


def _choose(conf: cfg.ConfigOpts, args: argparse.Namespace) -> int:
    _check_arguments(args)
    run = results.read(args.results)
    choices = _choices(run, args)
    directories = _profile_dirs(conf, args)
    changed = _changed_profiles(
        run, choices, catalogue.load(directories), args.objective
    )
    connection = None
    flavors = []
    if args.apply:
        _check_optimum(choices, args)
        connection = cloud.connection(args)
        flavors = nova_flavors.read(connection, args.apply)
    if args.profile_dir:
        for profile, _ in changed.values():
            _write(args.profile_dir, profile)
    if args.format == 'json':
        _print_json(run, choices, changed)
    else:
        _print(run, choices, changed, args)
    if args.apply:
        # with the profiles that have just been written
        profiles = catalogue.load(directories)
        profile_command.apply(
            connection,
            flavors,
            profiles.find(args.workload),
            profiles,
            conf.diskplacer_api.volume_type,
            args.yes,
        )
    return exit_status.OK


def _check_arguments(args: argparse.Namespace) -> None:
    """Check that options do not contradict each other.

    :raises DiskPlacerError: they do.
    """
    if args.apply and not (args.workload and args.profile_dir):
        raise exception.DiskPlacerError(
            '--apply needs --workload, which names the profile, and '
            '--profile-dir, which it is written into'
        )
    if args.apply and args.format == 'json':
        raise exception.DiskPlacerError(
            '--apply shows changes of flavors, which --format json does not '
            'have: must be without it'
        )


def _choices(
    run: results.Run, args: argparse.Namespace
) -> list[choose.Choice]:
    """Return the choices of the workloads, for each objective."""
    workloads = [args.workload] if args.workload else arm_comparison.WORKLOADS
    return [
        choose.choose(run.results, workload, objective)
        for workload in workloads
        for objective in choose.OBJECTIVES
    ]


def _profile_dirs(conf: cfg.ConfigOpts, args: argparse.Namespace) -> list[str]:
    directories = list(conf.diskplacer.profile_dirs)
    if args.profile_dir and args.profile_dir not in directories:
        directories.append(args.profile_dir)
    return directories


def _changed_profiles(
    run: results.Run,
    choices: collections.abc.Iterable[choose.Choice],
    profiles: catalogue.Catalogue,
    objective: str,
) -> dict[str, _Changed]:
    """Return the profiles that the choices change, by name."""
    changed = {
        choice.workload: profile_changes.changed(
            profiles.find(choice.workload), choice, run.header
        )
        for choice in choices
        if choice.objective == objective
    }
    return {
        name: (profile, changes)
        for name, (profile, changes) in changed.items()
        if changes
    }


def _check_optimum(
    choices: collections.abc.Iterable[choose.Choice], args: argparse.Namespace
) -> None:
    """Check that the results have an optimum that flavors would get.

    :raises DiskPlacerError: they have none.
    """
    for choice in choices:
        if choice.objective == args.objective and not choice.claims_optimum:
            raise exception.DiskPlacerError(
                f'{args.results} tells no optimum of {args.workload} for '
                f'{choose.OBJECTIVES[args.objective]}: diskplacer-manage '
                'profile apply gives flavors the profile as it is'
            )


def _write(directory: str, profile: definitions.Profile) -> None:
    """Write a profile into a directory, if it can be read from there.

    :raises DiskPlacerError: the directory cannot be written.
    """
    path = os.path.join(directory, f'{profile.name}.yaml')
    text = profile_files.dump(profile)
    with tempfile.TemporaryDirectory() as name:
        trial = pathlib.Path(name, 'profile.yaml')
        trial.write_text(text, encoding='utf-8')
        profile_files.read(trial)
    with files.disk_errors(path):
        files.replace(path, text, durable=True)


def _print_json(
    run: results.Run,
    choices: collections.abc.Iterable[choose.Choice],
    changed: collections.abc.Mapping[str, _Changed],
) -> None:
    shell.print_json(
        {
            'results': run.header.id,
            'emulated': run.header.emulated,
            'choices': [
                choose_view.data(
                    choice, model.fit(choice, run.header.data_mib)
                )
                for choice in choices
            ],
            'profiles': {
                name: [dataclasses.asdict(change) for change in changes]
                for name, (_, changes) in changed.items()
            },
        }
    )


def _print(
    run: results.Run,
    choices: collections.abc.Iterable[choose.Choice],
    changed: collections.abc.Mapping[str, _Changed],
    args: argparse.Namespace,
) -> None:
    if run.header.emulated:
        _say(contents.EMULATED + '\n')
    for choice in choices:
        _say(choose_view.title(choice))
        if choice.compared:
            columns, rows = choose_view.table(choice)
            print(shell.make_table(columns, rows, long=columns[:1]))
        _say(choose_view.conclusion(choice))
        fitted = model.fit(choice, run.header.data_mib)
        if fitted:
            _say(choose_view.model_title(fitted))
            print(shell.make_table(*choose_view.model_table(fitted)))
        print()
    for name, (_, changes) in changed.items():
        state = ' is written' if args.profile_dir else ', with --profile-dir'
        print(f'Profile {name}{state}:')
        for line in profile_changes.lines(changes):
            print(f'  {line}')
    if not changed:
        objective = choose.OBJECTIVES[args.objective]
        print(f'No profile changes by what is best for {objective}.')


def _say(text: str) -> None:
    print(textwrap.fill(text, _WIDTH))
