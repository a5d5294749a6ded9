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

The wheel is installed beside the packages of Nova and Cinder, where everything
must work.
"""

import pathlib
import re
import shutil
import sys
import tarfile
import zipfile
from email import parser

from docutils import core
from docutils import nodes

from tests.packaging import base

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


class PackagingTest(base.BuildTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.beside = cls.make_venv('beside')
        cls.install('beside', '--no-deps', cls.wheel)
        (site,) = cls.dir.glob('beside/lib/python*/site-packages')
        shared = [path for path in sys.path if path.endswith('-packages')]
        (site / 'shared.pth').write_text('\n'.join(shared) + '\n')

    def run_for_each_package(self, script):
        """Return what the script prints beside Nova and Cinder.

        They cannot be imported into one process: each package is an argument
        of a run of its own.
        """
        python = self.beside / 'python'
        return ''.join(
            base.run(python, '-c', script, package, cwd=self.dir)
            for package in base.PACKAGES
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
        self.assertEqual(self.below(*base.PACKAGES), names)

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
            {
                name
                for name in self.below(*base.PACKAGES)
                if name.endswith('.py')
            },
            {
                '/'.join(path.parts[path.parts.index('site-packages') + 1 :])
                for path in files
            },
        )
        for path in files:
            self.assertIn(self.dir / 'beside', path.parents)

    def test_every_entry_point_loads(self):
        project = base.read_project()
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
        namespaces = base.read_project()['entry-points']['oslo.config.opts']
        for namespace in namespaces:
            output = base.run(
                self.beside / 'python',
                '-m',
                'oslo_config.generator',
                '--namespace',
                namespace,
                cwd=self.dir,
            )
            self.assertIn('# From ' + namespace, output)

    def read_metadata(self):
        """Return the metadata of the wheel, as a package index reads it."""
        with zipfile.ZipFile(self.wheel) as archive:
            (name,) = (
                name
                for name in archive.namelist()
                if name.endswith('.dist-info/METADATA')
            )
            return parser.Parser().parsestr(archive.read(name).decode())

    def test_metadata(self):
        metadata = self.read_metadata()
        urls = dict(
            value.split(', ') for value in metadata.get_all('Project-URL')
        )
        self.assertEqual(
            {'Homepage', 'Documentation', 'Source', 'Issues', 'Release notes'},
            set(urls),
        )
        self.assertRegex(metadata['Author-email'], r'.+ <\S+@\S+>')
        self.assertRegex(metadata['Keywords'], 'openstack')
        if not re.search('dev|[abc]|rc', metadata['Version']):
            addresses = [*urls.values(), metadata['Author-email']]
            self.assertEqual(
                [],
                [one for one in addresses if '.example' in one],
                'a release needs the addresses of the project',
            )
            changelog = (base.TOP / 'debian/changelog').read_text()
            self.assertIn(
                f'nova-diskplacer ({metadata["Version"]}-',
                changelog.splitlines()[0],
            )

    def test_package_index_shows_the_description(self):
        metadata = self.read_metadata()
        self.assertEqual('text/x-rst', metadata['Description-Content-Type'])
        document = core.publish_doctree(
            metadata.get_payload(),
            settings_overrides={'halt_level': 2, 'report_level': 2},
        )
        for kind, attribute in (
            (nodes.image, 'uri'),
            (nodes.reference, 'refuri'),
        ):
            for node in document.findall(kind):
                # an index does not have the other files of the checkout
                self.assertRegex(node[attribute], 'https://')

    def test_wheel_without_git(self):
        """Distributions build from a tarball of the tracked files."""
        source = self.dir / 'source'
        for name in self.tracked:
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(base.TOP / name, target)
        base.run(
            sys.executable,
            '-m',
            'build',
            '--wheel',
            '--no-isolation',
            '--outdir',
            self.dir / 'without-git',
            cwd=source,
            environment={'PBR_VERSION': '1.2.3'},
        )
        (wheel,) = (self.dir / 'without-git').glob('*-1.2.3-*.whl')
        self.assertEqual(self.names(self.wheel), self.names(wheel))

    def names(self, wheel):
        """Return the files in a wheel, but for its metadata."""
        with zipfile.ZipFile(wheel) as archive:
            return {
                name.partition('.data/')[2] or name
                for name in archive.namelist()
                if '.dist-info/' not in name
            }
