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


"""``python -m tools.tempest``: run tests of tempest on the cloud.

They are those of Cinder, or those of Nova about servers that move.
"""

import argparse
import dataclasses
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import typing

from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import Host
from tools.tempest import config
from tools.tempest import results

# One host, so that every server can have every volume: with two media, for
# retyping and migrating between two backends.
HOSTS = (
    Host(
        'compute1',
        'libvirt',
        disks=6,
        disk_gb=12,
        media=('ssd', 'hdd'),
        backups=True,
    ),
)
# Between these, servers move.
MOVING_HOSTS = tuple(
    Host(name, 'libvirt', disks=6, media=('ssd',), moves=True)
    for name in ('compute1', 'compute2')
)


@dataclasses.dataclass(frozen=True)
class Suite:
    """Tests, by patterns of their names, and the cloud that they need.

    ``vdisks`` is how many a server has by its flavor, and by the one that it
    is resized to.
    """

    hosts: tuple[Host, ...]
    selected: tuple[str, ...]
    vdisks: tuple[int, int] = (0, 0)

    @property
    def flavors(self) -> tuple[str, str]:
        """The names of the flavors."""
        before, after = (
            f'vdisks-{count}' if count else 'plain' for count in self.vdisks
        )
        return before, after

    def create_flavors(self, cloud: Cloud) -> None:
        for count, name in zip(self.vdisks, self.flavors, strict=True):
            if name not in cloud.flavors:
                cloud.flavors[name] = cloud.api.create_flavor(
                    name,
                    vdisks=count,
                    vdisk_gb=1,
                    mapping='round_robin',
                    media='ssd',
                )


SUITES = {
    'volumes': Suite(
        HOSTS,
        (
            r'^tempest\.api\.volume\.',
            r'^cinder_tempest_plugin\.api\.volume\.',
            r'^cinder_tempest_plugin\.scenario\.',
        ),
    ),
    'live': Suite(
        MOVING_HOSTS,
        (r'^tempest\.api\.compute\.admin\.test_live_migration',),
        vdisks=(1, 2),
    ),
    'cold': Suite(
        MOVING_HOSTS,
        (
            r'^tempest\.api\.compute\.admin\.test_migrations',
            r'^tempest\.api\.compute\.servers\.test_server_actions\..*'
            r'(resize|shelve)',
        ),
        vdisks=(1, 2),
    ),
}
KNOWN = pathlib.Path(__file__).with_name('known.toml')
BIN = pathlib.Path(os.environ.get('TEMPEST_BIN', ''))


def main() -> int:
    # tools/tempest.sh prints the help
    parser = argparse.ArgumentParser(prog='tools/tempest.sh', add_help=False)
    parser.add_argument('regex', nargs='*')
    parser.add_argument('--json', metavar='FILE')
    parser.add_argument('--concurrency', type=int, default=2)
    parser.add_argument('--keep', action='store_true')
    parser.add_argument('--suite', choices=SUITES, default='volumes')
    args = parser.parse_args()
    suite = SUITES[args.suite]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    existing = os.environ.get('DISKPLACER_CLOUD')
    if existing:
        cloud = Cloud(pathlib.Path(existing))
        cloud.attach()
        return run(cloud, suite, args)
    path = tempfile.mkdtemp(prefix='diskplacer-tempest-', dir='/var/tmp')
    cloud = Cloud(pathlib.Path(path), suite.hosts)
    if args.keep:
        cloud.__enter__()
        print(
            f'the cloud stays up: DISKPLACER_CLOUD={path}; take it down '
            f'with tools/demo.sh --stop --state {path}'
        )
        return run(cloud, suite, args)
    with cloud:
        return run(cloud, suite, args)


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    # once: a second signal must not interrupt taking the cloud down
    for other in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


def run(cloud: Cloud, suite: Suite, args: argparse.Namespace) -> int:
    """Run the tests, tell the outcome, and return the exit status."""
    home = cloud.state.path / 'tempest'
    shutil.rmtree(home, ignore_errors=True)
    workspace = home / 'workspace'
    workspace.mkdir(parents=True)
    _tempest('init', workspace=workspace)
    suite.create_flavors(cloud)
    config.write(cloud, workspace, suite.flavors)
    known = results.known(KNOWN)
    listed = _listed(workspace, suite.selected)
    tests, left_out = _select(listed, args.regex, known)
    if not tests:
        print('tools/tempest.sh: no such test', file=sys.stderr)
        return 2
    begun = time.monotonic()
    found = results.of_each(
        tests, _run_tests(workspace, tests, args.concurrency)
    )
    seconds = round(time.monotonic() - begun)
    summary = _summary(found, left_out, seconds, known)
    _tell(summary)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(summary, indent=2))
    return 1 if summary['unexplained'] else 0


def _listed(workspace: pathlib.Path, selected: tuple[str, ...]) -> list[str]:
    """Return the names of all tests that there are to choose from."""
    text = _tempest('run', '--list', '--regex', '.', workspace=workspace)
    names = [results.TAGS.sub('', line) for line in text.splitlines()]
    return sorted({n for n in names if re.search('|'.join(selected), n)})


def _select(
    listed: list[str], regexes: list[str], known: list[results.Known]
) -> tuple[list[str], dict[str, str]]:
    """Return the tests to run, and why others are left out."""
    chosen = [
        test
        for test in listed
        if not regexes or any(re.search(regex, test) for regex in regexes)
    ]
    left_out = {
        test: reason
        for test in chosen
        if (reason := results.explanation(test, 'left_out', known))
    }
    return [test for test in chosen if test not in left_out], left_out


def _run_tests(
    workspace: pathlib.Path, tests: list[str], concurrency: int
) -> list[results.Result]:
    names = workspace / 'tests.txt'
    names.write_text(''.join(f'^{re.escape(test)}\\b\n' for test in tests))
    run = subprocess.Popen(
        [
            BIN / 'tempest',
            'run',
            f'--include-list={names}',
            f'--concurrency={concurrency}',
        ],
        cwd=workspace,
        env=_environment(workspace),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert run.stdout
    try:
        for line in run.stdout:
            # one for each test; the rest is logs of what failed
            if line.startswith('{'):
                print(line, end='', flush=True)
        run.wait()
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    done = subprocess.run(
        [BIN / 'stestr', 'last', '--subunit'],
        cwd=workspace,
        stdout=subprocess.PIPE,
    )
    stream = workspace / 'results.subunit'
    stream.write_bytes(done.stdout)
    with stream.open('rb') as opened:
        return results.read(opened)


def _tempest(*args: str, workspace: pathlib.Path) -> str:
    done = subprocess.run(
        [BIN / 'tempest', *args],
        cwd=workspace,
        env=_environment(workspace),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise process.ProcessError(f'tempest {args}: {done.stderr[-2000:]}')
    return done.stdout


def _environment(workspace: pathlib.Path) -> dict[str, str]:
    # tempest keeps a list of workspaces in the home directory
    return {**os.environ, 'HOME': str(workspace.parent)}


def _summary(
    found: list[results.Result],
    left_out: dict[str, str],
    seconds: int,
    known: list[results.Known],
) -> dict[str, typing.Any]:
    others = []
    for result in sorted(found, key=lambda result: result.test):
        if result.status != results.PASSED:
            others.append(
                {
                    'test': result.test,
                    'status': result.status,
                    'reason': result.reason,
                    'explanation': results.explanation(
                        result.test, result.status, known, result.reason
                    ),
                }
            )
    return {
        'date': datetime.datetime.now(datetime.UTC).date().isoformat(),
        'versions': {
            'python': platform.python_version(),
            'cinder': importlib.metadata.version('cinder'),
            'nova': importlib.metadata.version('nova'),
            **dict(
                line.split('==')
                for line in KNOWN.with_name('requirements.txt')
                .read_text()
                .splitlines()
                if '==' in line
            ),
        },
        'seconds': seconds,
        **results.counts(found),
        'left_out': left_out,
        'not_passed': others,
        'unexplained': [
            one['test'] for one in others if one['explanation'] is None
        ],
    }


def _tell(summary: dict[str, typing.Any]) -> None:
    for test, reason in summary['left_out'].items():
        print(f'left out  {test}\n          {reason}')
    for one in summary['not_passed']:
        reason = one['reason'].splitlines()
        why = one['explanation'] or 'NOT EXPLAINED'
        print(f'{one["status"]:9} {one["test"]}')
        print(f'          {reason[-1] if reason else "no reason given"}')
        print(f'          {why}')
    counted = [
        f'{summary[status]} {status}'
        for status in (results.PASSED, results.FAILED, results.SKIPPED)
    ]
    print(
        f'{", ".join(counted)}, {len(summary["left_out"])} left out; '
        f'{len(summary["unexplained"])} of these not explained; '
        f'{summary["seconds"]} s'
    )


if __name__ == '__main__':
    sys.exit(main())
