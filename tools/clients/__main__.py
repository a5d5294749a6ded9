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


"""``python -m tools.clients``: real clients create servers with vdisks."""

import argparse
import collections.abc
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import types

from tools.clients import checks
from tools.clients import environment
from tools.clients import report
from tools.clients.ansible import Ansible
from tools.clients.checks import Check
from tools.clients.client import Client
from tools.clients.client import Projects
from tools.clients.horizon import Horizon
from tools.clients.nova import NovaClient
from tools.clients.project import Project
from tools.clients.terraform import Terraform
from tools.minicloud.api import ApiError
from tools.minicloud.cloud import Cloud
from tools.minicloud.process import ProcessError

CLIENTS = {one.key: one for one in (NovaClient, Terraform, Ansible, Horizon)}
_OTHER_TYPE = 'other'
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    args = _parse(sys.argv[1:])
    for number in _SIGNALS:
        signal.signal(number, _interrupted)
    clients = [one() for key, one in CLIENTS.items() if key in args.client]
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for client in clients:
        try:
            versions |= client.make()
        except environment.MissingError as error:
            missing[client.key] = str(error)
    found: list[Check] = []
    path = tempfile.mkdtemp(prefix='diskplacer-clients-', dir='/var/tmp')
    with Cloud(pathlib.Path(path), network=True) as cloud:
        try:
            projects = _make_projects(cloud)
            for client in clients:
                reason = missing.get(client.key) or _start(client, cloud)
                for check in _checks(client, projects, reason):
                    print(report.line(check), flush=True)
                    found.append(check)
        finally:
            # nothing must interrupt taking the cloud down
            _ignore_signals()
            if args.logs:
                shutil.copytree(cloud.state.logs, args.logs)
    if args.json:
        words = args.client if len(clients) < len(CLIENTS) else []
        text = json.dumps(report.content(found, versions, words), indent=2)
        args.json.write_text(f'{text}\n')
    print(report.summary(found))
    return int(any(one.outcome != checks.AS_EXPECTED for one in found))


def _parse(words: collections.abc.Sequence[str]) -> argparse.Namespace:
    # tools/clients.sh prints the help
    parser = argparse.ArgumentParser(prog='tools/clients.sh', add_help=False)
    parser.add_argument('client', nargs='*', metavar='CLIENT')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    parser.add_argument('--logs', type=pathlib.Path, metavar='DIR')
    args = parser.parse_args(words)
    for key in args.client:
        if key not in CLIENTS:
            parser.error(f'{key} is not one of: {" ".join(CLIENTS)}')
    if args.logs and args.logs.exists():
        parser.error(f'--logs {args.logs}: it exists already')
    if args.json and not args.json.parent.is_dir():
        parser.error(f'--json {args.json}: no such directory')
    args.client = args.client or list(CLIENTS)
    return args


def _interrupted(number: int, frame: types.FrameType | None) -> None:
    _ignore_signals()
    sys.exit(128 + number)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _make_projects(cloud: Cloud) -> Projects:
    cloud.api.create_volume_type(_OTHER_TYPE)
    return Projects(
        Project(cloud, 'analyst'),
        Project(cloud, 'designer', default_type=_OTHER_TYPE),
    )


def _start(client: Client, cloud: Cloud) -> str:
    """Make a client ready, and return why it is not, '' if it is."""
    try:
        client.start(cloud)
    except ProcessError as error:
        return str(error)
    return ''


def _checks(
    client: Client, projects: Projects, reason: str
) -> collections.abc.Iterator[Check]:
    """Yield the checks of a client.

    :param reason: why it cannot be run, if it cannot.
    """
    for project, steps in client.cases(projects):
        if reason:
            yield from checks.not_run(client.name, steps, reason)
        else:
            yield from checks.run(client.name, steps)
            _clear(project)


def _clear(project: Project) -> None:
    """Delete what a client has left, so that it is not in another's way."""
    try:
        project.clear()
    except (ApiError, ProcessError) as error:
        print(f'{project.name} is not empty: {error}', flush=True)


if __name__ == '__main__':
    sys.exit(main())
