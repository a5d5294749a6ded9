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


"""debian/control agrees with the requirements; tools/debian.sh builds it."""

import itertools
import pathlib
import re
from email import parser

import testscenarios
import testtools

from nova_diskplacer.conf import diskplacer
from tests.packaging import base
from tests.packaging import test_requirements

#: the extras that the packages stand for
EXTRAS = {
    'nova-diskplacer-common': ['manage'],
    'nova-diskplacer-agent': ['agent'],
    'nova-diskplacer-measure': ['measure'],
    'nova-diskplacer-scheduler': ['scheduler', 'api'],
    'nova-diskplacer-vendordata': ['vendordata'],
    'nova-diskplacer-client': ['client'],
    'cinder-vdisk-mapper': ['driver'],
}

#: the packages that a package contains
INCLUDED = {
    'cinder-vdisk-mapper': 'nova-diskplacer-common',
    'nova-diskplacer-agent': 'nova-diskplacer-common',
    'nova-diskplacer-measure': 'nova-diskplacer-common',
}

OPTIONAL = {
    'cinder-vdisk-mapper': 'libvirt',
    'nova-diskplacer-agent': 'libvirt',
    'nova-diskplacer-measure': 'libvirt',
}

# Debian's names are python3- and the name of the project, but for these.
NAMES = {
    'python-memcached': 'memcache',
    'libvirt-python': 'libvirt',
    'pyyaml': 'yaml',
}


def read_control():
    """Return the fields of each binary package by its name."""
    stanzas = (base.TOP / 'debian/control').read_text().split('\n\n')
    found = [parser.Parser().parsestr(stanza) for stanza in stanzas]
    return {one['Package']: one for one in found if one['Package']}


def read_bounds(field):
    """Return {package: least version} of Python packages, without epochs."""
    return dict(
        re.findall(r'(python3-[\w.-]+) \(>= (?:\d+:)?([\d.]+)\)', field or '')
    )


def bounds_of(requirements):
    """Return {Debian's package: least version} of requirements."""
    bounds = {}
    for line in requirements:
        name, version = re.match(r'([\w.-]+).*?>=([\d.]+)', line).groups()
        name = name.lower().replace('_', '-')
        name = NAMES.get(name, name.removeprefix('python-'))
        bounds[f'python3-{name}'] = version
    return bounds


class ControlTest(testscenarios.WithScenarios, testtools.TestCase):
    scenarios = [(name, {'package': name}) for name in EXTRAS]

    def setUp(self):
        super().setUp()
        self.control = read_control()
        self.extras = base.read_project()['optional-dependencies']

    def read_extras(self, names):
        return [
            line
            for name in names
            for line in self.extras[name]
            if not line.startswith('nova-diskplacer[')
        ]

    def test_depends(self):
        self.assertEqual(
            bounds_of(self.read_extras(EXTRAS[self.package])),
            read_bounds(self.control[self.package]['Depends']),
        )

    def test_recommends(self):
        optional = OPTIONAL.get(self.package)
        self.assertEqual(
            bounds_of(self.read_extras([optional] if optional else [])),
            read_bounds(self.control[self.package]['Recommends']),
        )

    def test_contains(self):
        """Packages of one version depend on each other."""
        wanted = INCLUDED.get(self.package, 'python3-nova-diskplacer')
        self.assertIn(
            f'{wanted} (= ${{binary:Version}})',
            self.control[self.package]['Depends'],
        )


class DirectoriesTest(testtools.TestCase):
    def test_profiles(self):
        """All users may look into what a package makes below /etc."""
        path = base.TOP / 'debian/nova-diskplacer-common.dirs'
        directory = pathlib.Path(diskplacer.PROFILE_DIRS.default[-1])
        self.assertIn(
            str(directory.relative_to('/')), path.read_text().split()
        )


class UnitsTest(testtools.TestCase):
    """Units of cinder-vdisk-mapper, which the operator starts."""

    def test_upgrade_does_not_stop(self):
        rules = (base.TOP / 'debian/rules').read_text().replace('\\\n', '')
        (line,) = re.findall(
            r'\tdh_installsystemd -pcinder-vdisk-mapper (.*)', rules
        )
        self.assertEqual(
            {'--no-enable', '--no-start', '--no-stop-on-upgrade'},
            set(line.split()),
        )

    def test_removal_stops(self):
        directory = base.TOP / 'debian'
        installed = (directory / 'cinder-vdisk-mapper.install').read_text()
        prerm = (directory / 'cinder-vdisk-mapper.prerm').read_text()
        (stop,) = re.findall(
            r'if \[ "\$1" = remove \].*\n +deb-systemd-invoke stop (.*)',
            prerm.replace('\\\n', ''),
        )
        units = re.findall(r'[\w-]+\.service', installed)
        self.assertEqual(2, len(units))
        self.assertEqual(units, re.findall(r'[\w-]+\.service', stop))


class ModulesTest(testtools.TestCase):
    def test_depends(self):
        self.assertEqual(
            bounds_of(test_requirements.core()),
            read_bounds(read_control()['python3-nova-diskplacer']['Depends']),
        )

    def test_every_package_and_extra_is_known(self):
        self.assertEqual(
            {*EXTRAS, 'python3-nova-diskplacer'}, set(read_control())
        )
        self.assertEqual(
            set(base.read_project()['optional-dependencies']),
            {
                *itertools.chain(*EXTRAS.values()),
                *OPTIONAL.values(),
            },
        )
