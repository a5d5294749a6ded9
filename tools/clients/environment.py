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


"""Environments of clients, below ``.venv``, made once for each content."""

import collections.abc
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from tools.minicloud import ini

_VENVS = pathlib.Path(__file__).parents[2] / '.venv'
_DONE = '.done'


class MissingError(Exception):
    """A client cannot be had on this machine; says why."""


def program(name: str) -> str:
    """Return the path of a program of this machine.

    :raises MissingError: it has none of that name.
    """
    path = shutil.which(name)
    if path is None:
        raise MissingError(f'this machine has no program {name}')
    return path


def make(
    name: str,
    content: str,
    install: collections.abc.Callable[[pathlib.Path], None],
) -> pathlib.Path:
    """Return the environment of a client, made if it is not there yet.

    :param content: what it is made of: a change makes another one.
    :param install: fills the new directory.
    :raises MissingError: it could not be made.
    """
    key = hashlib.sha256(f'{sys.version} {content}'.encode()).hexdigest()[:12]
    path = _VENVS / f'{name}-{key}'
    _VENVS.mkdir(exist_ok=True)
    with (_VENVS / f'{name}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / _DONE).exists():
            print(f'== {name} in .venv/{path.name}', flush=True)
            # a directory without its stamp is what an interrupted run left
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            install(path)
            (path / _DONE).touch()
    return path


def pinned(requirements: str) -> dict[str, str]:
    """Return the versions of the packages that requirements pin."""
    return dict(
        line.split('==') for line in requirements.splitlines() if '==' in line
    )


def install_python(path: pathlib.Path, *arguments: str) -> None:
    """Make a Python environment with packages.

    :param arguments: those of ``pip install``.
    :raises MissingError: a package could not be had.
    """
    run(sys.executable, '-m', 'venv', str(path))
    python = str(path / 'bin' / 'python')
    uv = f'{ini.BIN}/uv'
    run(uv, 'pip', 'install', '-q', '--python', python, *arguments)


def run(*argv: str, **env: str) -> None:
    """Run a program, with the variables of ours and more.

    :raises MissingError: it failed; has its last line.
    """
    child = subprocess.Popen(
        argv,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = child.communicate()
    except BaseException:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if child.returncode:
        print(printed, flush=True)
        last = (printed.strip().splitlines() or ['no output'])[-1]
        name = pathlib.Path(argv[0]).name
        raise MissingError(f'{name} {argv[1]} failed: {last}')
