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

"""Files that a program serves by FUSE, below disks that are slow as it is."""

import os
import pathlib

from tools.minicloud import disks
from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import State


def mount(
    state: State, path: pathlib.Path, argv: list[str], requests: int
) -> None:
    """Have a program serve a file in place of another.

    It is recorded, and ends when disks are removed. If it serves the file
    already, it goes on.

    :param path: the file, which is there.
    :param argv: the program; it mounts its file at ``path``.
    :param requests: how many it gets at once, at most.
    """
    disks.run_dir(state).mkdir(exist_ok=True)
    daemon = Process(
        path.name,
        argv,
        disks.run_dir(state),
        state.logs,
        ready=lambda: path.stat().st_dev != path.parent.stat().st_dev,
    )
    daemon.start()
    daemon.wait_ready()
    connection = _control(state) / str(os.minor(path.stat().st_dev))
    (connection / 'max_background').write_text(str(requests))


def _control(state: State) -> pathlib.Path:
    """Return where the settings of FUSE's connections are."""
    control = state.path / 'devices' / 'fusectl'
    if not control.is_mount():
        control.mkdir(exist_ok=True)
        process.run('mount', '-t', 'fusectl', 'none', str(control))
    return control
