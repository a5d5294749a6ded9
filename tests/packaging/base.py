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


"""The sdist and the wheel, built as a package index would get them."""

import atexit
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv

import testtools

TOP = pathlib.Path(__file__).parents[2]
PACKAGES = ('nova_diskplacer', 'cinder_vdisk_mapper', 'diskplacer_measure')


def canonical(name):
    """Return the name of a distribution as package indexes compare it."""
    return re.sub(r'[-_.]+', '-', name).lower()


def read_project():
    """Return the table ``project`` of pyproject.toml."""
    with open(TOP / 'pyproject.toml', 'rb') as stream:
        return tomllib.load(stream)['project']


def run(*command, cwd=TOP, environment=None):
    """Return what the command prints; its errors are the test's."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        # reno would write its cache into the checkout
        env={
            **os.environ,
            'SKIP_GENERATE_RENO': '1',
            'UV_HTTP_TIMEOUT': '300',
            **(environment or {}),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise AssertionError(
            f'{command} ended with {done.returncode}:\n'
            f'{done.stdout}\n{done.stderr}'
        )
    return done.stdout


@functools.cache
def build():
    """Return a directory with the sdist and the wheel that it makes.

    They are built once, and removed at the end of the process.
    """
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    run(
        sys.executable,
        '-m',
        'build',
        '--no-isolation',
        '--outdir',
        directory.name,
    )
    return pathlib.Path(directory.name)


@functools.cache
def make_environment(extras=''):
    """Return the directory bin of an environment with the wheel.

    Nothing else is in it than what the wheel needs with these extras. It is
    made once.

    :param extras: names of extras, separated by commas.
    """
    directory = build() / (extras or 'nothing')
    venv.create(directory, symlinks=True)
    (wheel,) = build().glob('*.whl')
    run(
        'uv',
        'pip',
        'install',
        '-q',
        '--python',
        directory / 'bin/python',
        '-c',
        TOP / 'tools/lib/constraints.txt',
        '-c',
        TOP / 'tools/lib/openstack.txt',
        f'{wheel}[{extras}]' if extras else wheel,
    )
    return directory / 'bin'


class BuildTestCase(testtools.TestCase):
    """Tests with ``sdist`` and ``wheel``, and a directory for each class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.dir = pathlib.Path(directory.name)
        # commits may come while the tests run
        cls.tracked = set(run('git', 'ls-files').split())
        (cls.sdist,) = build().glob('*.tar.gz')
        (cls.wheel,) = build().glob('*.whl')

    @classmethod
    def make_venv(cls, name):
        """Make an environment below ``dir``; return its directory bin."""
        venv.create(cls.dir / name, symlinks=True)
        return cls.dir / name / 'bin'

    @classmethod
    def install(cls, name, *words):
        """Install into an environment with the arguments of pip."""
        run('uv', 'pip', 'install', '-q', '--python', cls.dir / name, *words)

    def below(self, *directories):
        """Return the tracked files in directories of the checkout."""
        return {
            name
            for name in self.tracked
            if name.partition('/')[0] in directories
        }
