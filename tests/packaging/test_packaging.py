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


"""What is released: the sdist and the wheel, and what the wheel installs.

The wheel is built from the sdist, as a package index would get them. It is
installed twice: beside Nova's and Cinder's packages, where everything must
work, and with nothing but ``requirements.txt``, as on a compute node that
runs the agent in an environment of its own.
"""

import ast
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from importlib import metadata

import testtools

TOP = pathlib.Path(__file__).parents[2]
PACKAGES = ('nova_diskplacer', 'cinder_vdisk_mapper')

IMPORT_ALL = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
print(package.__file__)
for module in pkgutil.walk_packages(package.__path__, sys.argv[1] + '.'):
    print(importlib.import_module(module.name).__file__)
"""

LOAD_ENTRY_POINTS = """
import sys
from importlib import metadata
for entry in metadata.distribution('nova-diskplacer').entry_points:
    if entry.value.startswith(sys.argv[1] + '.'):
        entry.load()
        print(entry.group, entry.name)
"""


def canonical(name):
    """Return the name of a distribution as package indexes compare it."""
    return re.sub(r'[-_.]+', '-', name).lower()


def run(*command, cwd=TOP):
    """Return what the command prints; its errors are the test's."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        # reno would write its cache into the checkout
        env={
            **os.environ,
            'SKIP_GENERATE_RENO': '1',
            'UV_HTTP_TIMEOUT': '300',
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


class PackagingTest(testtools.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.dir = pathlib.Path(directory.name)
        # commits may come while the tests run
        cls.tracked = set(run('git', 'ls-files').split())
        run(
            sys.executable,
            '-m',
            'build',
            '--no-isolation',
            '--outdir',
            cls.dir,
        )
        (cls.sdist,) = cls.dir.glob('*.tar.gz')
        (cls.wheel,) = cls.dir.glob('*.whl')
        cls.beside = cls.make_venv('beside')
        cls.install('beside', '--no-deps', cls.wheel)
        (site,) = cls.dir.glob('beside/lib/python*/site-packages')
        shared = [path for path in sys.path if path.endswith('-packages')]
        (site / 'shared.pth').write_text('\n'.join(shared) + '\n')

    @classmethod
    def make_venv(cls, name):
        venv.create(cls.dir / name, symlinks=True)
        return cls.dir / name / 'bin'

    @classmethod
    def install(cls, name, *words):
        run('uv', 'pip', 'install', '-q', '--python', cls.dir / name, *words)

    def below(self, *directories):
        """Return the tracked files in directories of the checkout."""
        return {
            name
            for name in self.tracked
            if name.partition('/')[0] in directories
        }

    def run_for_each_package(self, script):
        """Return what the script prints beside Nova and Cinder.

        They cannot be imported into one process: each package is an argument
        of a run of its own.
        """
        python = self.beside / 'python'
        return ''.join(
            run(python, '-c', script, package, cwd=self.dir)
            for package in PACKAGES
        )

    def test_sdist_contains_every_tracked_file(self):
        with tarfile.open(self.sdist) as archive:
            names = {
                member.name.partition('/')[2]
                for member in archive.getmembers()
            }
        # pbr leaves out git's own files
        expected = {
            name
            for name in self.tracked
            if not pathlib.PurePath(name).name.startswith('.git')
        }
        self.assertEqual(set(), expected - names)

    def test_wheel_contains_the_packages_and_nothing_else(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = {
                name
                for name in archive.namelist()
                if '.dist-info/' not in name and '.data/' not in name
            }
        self.assertEqual(self.below(*PACKAGES), names)

    def test_wheel_installs_configuration_and_units(self):
        installed = {
            path.name
            for directory in ('etc', 'lib/systemd')
            for path in self.dir.glob(f'beside/{directory}/**/*')
            if path.is_file()
        }
        expected = {
            pathlib.PurePath(name).name
            for name in self.below('etc')
            if not name.endswith('-config-generator.conf')
        }
        self.assertNotEqual(set(), expected)
        self.assertEqual(expected, installed)

    def test_every_module_imports(self):
        output = self.run_for_each_package(IMPORT_ALL)
        files = [pathlib.Path(line) for line in output.split()]
        self.assertEqual(
            {name for name in self.below(*PACKAGES) if name.endswith('.py')},
            {
                '/'.join(path.parts[path.parts.index('site-packages') + 1 :])
                for path in files
            },
        )
        for path in files:
            self.assertIn(self.dir / 'beside', path.parents)

    def test_every_import_is_declared(self):
        with open(TOP / 'pyproject.toml', 'rb') as stream:
            extras = tomllib.load(stream)['project']['optional-dependencies']
        lines = (TOP / 'requirements.txt').read_text().splitlines()
        declared = {
            canonical(re.match(r'[\w.-]+', line)[0])
            for line in (*lines, *itertools.chain(*extras.values()))
        }
        # libvirt-python is installed for the end-to-end tests only
        installed = metadata.packages_distributions()
        for name in (*sys.stdlib_module_names, *PACKAGES):
            installed.pop(name, None)
        undeclared = {
            name
            for name in self.imported() & set(installed)
            if declared.isdisjoint(map(canonical, installed[name]))
        }
        self.assertEqual(set(), undeclared)

    def imported(self):
        """Return the top-level packages that the project's modules import."""
        found = set()
        for name in self.below(*PACKAGES):
            if name.endswith('.py'):
                for node in ast.walk(ast.parse((TOP / name).read_text())):
                    if isinstance(node, ast.Import):
                        found.update(alias.name for alias in node.names)
                    elif isinstance(node, ast.ImportFrom):
                        found.add(node.module)
        return {name.partition('.')[0] for name in found}

    def test_every_entry_point_loads(self):
        with open(TOP / 'pyproject.toml', 'rb') as stream:
            project = tomllib.load(stream)['project']
        groups = project['entry-points'] | {
            'console_scripts': project['scripts']
        }
        expected = {
            (group, name) for group, names in groups.items() for name in names
        }
        output = self.run_for_each_package(LOAD_ENTRY_POINTS)
        loaded = {tuple(line.split()) for line in output.splitlines()}
        self.assertEqual(expected, loaded)

    def test_sample_configuration_generates(self):
        for namespace in PACKAGES:
            output = run(
                self.beside / 'python',
                '-m',
                'oslo_config.generator',
                '--namespace',
                namespace,
                cwd=self.dir,
            )
            self.assertIn('# From ' + namespace, output)

    def test_commands_need_only_the_requirements(self):
        alone = self.make_venv('alone')
        constraints = TOP / 'tools/lib/constraints.txt'
        self.install('alone', '-c', constraints, self.wheel)
        packages = run('uv', 'pip', 'freeze', '--python', alone.parent)
        for service in ('nova==', 'cinder=='):
            self.assertNotIn('\n' + service, packages)
        for command in (
            ('diskplacer-agent',),
            ('diskplacer-manage',),
            ('diskplacer-manage', 'map'),
            ('diskplacer-manage', 'top'),
            ('diskplacer-manage', 'guest-config'),
            ('diskplacer-manage', 'profile', 'list'),
            ('diskplacer-manage', 'profile', 'show'),
            ('diskplacer-manage', 'profile', 'apply'),
            ('diskplacer-manage', 'profile', 'check'),
            ('diskplacer-manage', 'profile', 'diff'),
            ('diskplacer-manage', 'disk', 'prepare'),
            ('diskplacer-manage', 'disk', 'list'),
            ('diskplacer-manage', 'disk', 'show'),
            ('diskplacer-manage', 'disk', 'forget'),
        ):
            name, *words = command
            output = run(alone / name, *words, '--help', cwd=self.dir)
            self.assertIn('usage: ' + ' '.join(command), output)
