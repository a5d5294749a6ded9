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


"""What each part needs: the extras agree with what the modules import.

The imports are read from the source, so those that a function makes count too.
Each part is also installed with nothing but its extra.
"""

import json
import re
from importlib import metadata

import grimp
import testscenarios
import testtools

from tests.packaging import base

# The modules of a part with those below them, and its commands. To import a
# module is to import the packages that it is in.
PARTS = {
    'scheduler': ['nova_diskplacer.scheduler'],
    'api': ['nova_diskplacer.api', 'nova_diskplacer.extra_specs'],
    'driver': ['cinder_vdisk_mapper'],
    'manage': [
        'nova_diskplacer.cmd',
        'nova_diskplacer.cmd.disk',
        'nova_diskplacer.cmd.guest_config',
        'nova_diskplacer.cmd.manage',
        'nova_diskplacer.cmd.map',
        'nova_diskplacer.cmd.profile',
        'nova_diskplacer.cmd.status',
        'nova_diskplacer.cmd.top',
    ],
    'agent': [
        'nova_diskplacer.agent',
        'nova_diskplacer.cmd.agent',
    ],
    'measure': ['diskplacer_measure'],
    'vendordata': [
        'nova_diskplacer.vendordata',
        'nova_diskplacer.cmd',
        'nova_diskplacer.cmd.vendordata',
    ],
    'client': ['nova_diskplacer.client'],
}
PARTS['agent'] += PARTS['manage']
PARTS['measure'] += PARTS['manage']

# Extras that another extra contains, or that may be missing.
INCLUDED = {
    'agent': ['manage', 'libvirt'],
    'measure': ['manage', 'libvirt'],
}

# What parts without mappings do not import. It is small, and one of the
# project's own dependencies.
OF_CORE = {'stevedore'}

# What is imported where it is needed, and may be missing.
OPTIONAL = {'libvirt-python'}

# They are not imported by the part itself: the command openstack, and what
# keystonemiddleware imports if memcached_servers is set.
OF_OTHERS = {
    'client': {'python-openstackclient'},
    'vendordata': {'python-memcached'},
}

COMMAND_LINES = {
    'agent': [
        ('diskplacer-agent',),
        ('diskplacer-status',),
        ('diskplacer-manage',),
    ],
    'measure': [
        ('diskplacer-manage', 'sweep', 'run'),
        ('diskplacer-manage', 'sizing', 'load'),
    ],
    'vendordata': [('diskplacer-vendordata',)],
    'client': [
        ('openstack', 'vdisk', 'list'),
    ],
}

IMPORT_PART = """
import importlib, importlib.util, json, pkgutil, sys
modules, externals = map(json.loads, sys.argv[1:])
for name in modules:
    module = importlib.import_module(name)
    if hasattr(module, '__path__') and not name.endswith('.cmd'):
        for below in pkgutil.walk_packages(module.__path__, name + '.'):
            importlib.import_module(below.name)
print(json.dumps(
    [name for name in externals if not importlib.util.find_spec(name)]
))
"""


def names(requirements):
    """Return the canonical names of requirements."""
    return {
        base.canonical(re.match(r'[\w.-]+', one)[0]) for one in requirements
    }


def core():
    """Return the lines of requirements.txt."""
    return (base.TOP / 'requirements.txt').read_text().splitlines()


def extra(name):
    """Return the requirements of an extra and of those it contains."""
    extras = base.read_project()['optional-dependencies']
    return [
        line
        for part in (name, *INCLUDED.get(name, ()))
        for line in extras[part]
        if not line.startswith('nova-diskplacer[')
    ]


class Imports:
    """The import graph, which takes a second to build."""

    def __init__(self):
        self.graph = grimp.build_graph(
            *base.PACKAGES,
            include_external_packages=True,
            exclude_type_checking_imports=True,
            cache_dir=None,
        )
        self.distributions = metadata.packages_distributions()

    def of_part(self, name):
        """Return the other projects' packages that a part imports."""
        found = set()
        for module in PARTS[name]:
            alone = module.endswith('.cmd')
            found |= self.graph.find_upstream_modules(
                module, as_package=not alone
            )
            for package in self._packages(module):
                found |= self.graph.find_upstream_modules(package)
        return {
            module
            for module in found
            if module in self.distributions and module not in base.PACKAGES
        }

    def _packages(self, module):
        while '.' in module:
            module = module.rpartition('.')[0]
            yield module

    def distributions_of(self, packages):
        """Return the canonical names of the distributions of packages."""
        return {
            base.canonical(self.distributions[package][0])
            for package in packages
        }


class DeclaredTest(testscenarios.WithScenarios, testtools.TestCase):
    scenarios = [(name, {'part': name}) for name in PARTS]

    def test_declared_is_what_is_imported(self):
        imports = Imports()
        imported = imports.distributions_of(imports.of_part(self.part))
        declared = names(core()) | names(extra(self.part))
        self.assertEqual(
            imported - OPTIONAL | OF_CORE,
            declared - OPTIONAL - OF_OTHERS.get(self.part, set()),
        )


class AgreementTest(testtools.TestCase):
    def test_every_part_has_an_extra(self):
        self.assertEqual(
            {*PARTS, 'libvirt'},
            set(base.read_project()['optional-dependencies']),
        )

    def test_controllers_install_nothing_of_hosts(self):
        hosts = names(['psutil', 'rich', 'oslo.privsep'])
        hosts |= names(['libvirt-python', 'oslo.concurrency'])
        for part in ('scheduler', 'api', 'client', 'vendordata'):
            self.assertEqual(set(), hosts & names(core() + extra(part)))
        for part in ('scheduler', 'api', 'vendordata'):
            self.assertNotIn('prometheus-client', names(core() + extra(part)))

    def test_tests_install_every_extra(self):
        """One command gives tests all: both files of requirements."""
        path = base.TOP / 'test-requirements.txt'
        lines = {line.partition(' #')[0] for line in open(path)}
        # tools/lib installs them in fixed versions, os-brick with Cinder
        others = {'cinder', 'libvirt-python', 'nova', 'os-brick'}
        for part in PARTS:
            for line in extra(part):
                if not names([line]) & others:
                    self.assertIn(line, lines)


class InstalledTest(testscenarios.WithScenarios, base.BuildTestCase):
    # DeclaredTest tells scheduler and api, and agent and manage, apart
    scenarios = [
        (extras, {'extras': extras})
        for extras in (
            'scheduler,api',
            'driver',
            'agent',
            'measure',
            'vendordata',
            'client',
        )
    ]

    def test_parts_need_only_their_extras(self):
        programs = base.make_environment(self.extras)
        imports = Imports()
        for part in self.extras.split(','):
            missing = base.run(
                programs / 'python',
                '-c',
                IMPORT_PART,
                json.dumps(PARTS[part]),
                json.dumps(sorted(imports.of_part(part) - {'libvirt'})),
                cwd=self.dir,
            )
            self.assertEqual([], json.loads(missing.splitlines()[-1]))
        for name, *words in COMMAND_LINES.get(self.extras, ()):
            output = base.run(programs / name, *words, '--help', cwd=self.dir)
            self.assertIn('usage: ' + ' '.join((name, *words)), output)


class NothingInstalledTest(base.BuildTestCase):
    def test_command_says_what_to_install(self):
        error = self.assertRaises(
            AssertionError,
            base.run,
            base.make_environment() / 'diskplacer-agent',
        )
        self.assertIn('nova-diskplacer[agent]', str(error))
        self.assertNotIn('Traceback', str(error))
