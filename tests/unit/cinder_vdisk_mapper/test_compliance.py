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

"""The driver and the filter against what Cinder says and does with them.

Cinder's own compliance test accepts any class (it looks for bound methods on
a class, of which there are none), so this one reads the interfaces, and every
call in Cinder's code, and holds the driver to both.
"""

import ast
import functools
import importlib
import inspect
import pathlib
import pkgutil
import textwrap

import cinder
import testtools
from cinder import interface
from cinder.interface import base
from cinder.interface import volume_driver
from cinder.interface import volume_group_driver
from cinder.interface import volume_manageable_driver
from cinder.interface import volume_snapshot_revert
from cinder.interface import volume_snapshotmanagement_driver
from cinder.scheduler import filters
from cinder.volume import driver as cinder_driver

from cinder_vdisk_mapper import driver
from cinder_vdisk_mapper import scheduler

INTERFACES = (
    volume_driver.VolumeDriverCore,
    volume_group_driver.VolumeGroupDriver,
    volume_manageable_driver.VolumeListManageableDriver,
    volume_snapshotmanagement_driver.VolumeSnapshotManagementDriver,
    volume_snapshot_revert.VolumeSnapshotRevertDriver,
)

_LEGACY = 'Cinder calls the methods of groups first, which are implemented'
_REPLICATION = 'the content of a local disk has no replica'
_SNAPSHOT = 'snapshots are not attached: backup_use_temp_snapshot is false'

#: methods that only raise NotImplementedError -> why that is right
NOT_IMPLEMENTED = {
    'create_cgsnapshot': _LEGACY,
    'create_consistencygroup': _LEGACY,
    'create_consistencygroup_from_src': _LEGACY,
    'delete_cgsnapshot': _LEGACY,
    'delete_consistencygroup': _LEGACY,
    'update_consistencygroup': _LEGACY,
    'disable_replication': _REPLICATION,
    'enable_replication': _REPLICATION,
    'failover_completed': _REPLICATION,
    'failover_host': _REPLICATION,
    'failover_replication': _REPLICATION,
    'create_export_snapshot': _SNAPSHOT,
    'remove_export_snapshot': _SNAPSHOT,
    'create_volume_from_backup': 'the backup service restores it then',
}

#: Cinder's code that calls drivers
CALLERS = ('volume/manager.py', 'volume/flows/manager/*.py')

_PLAIN = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def public_methods(cls):
    """Return {name: function} of the public methods of a class."""
    return {
        name: member
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith('_')
    }


def incompatible(wanted, actual, by_name=True):
    """Return why a function cannot stand in for another; None if it can.

    :param by_name: whether parameters may be given by name.
    """
    wanted, actual = (
        list(inspect.signature(function).parameters.values())
        for function in (wanted, actual)
    )
    plain = [one for one in actual if one.kind in _PLAIN]
    kinds = {one.kind for one in actual}
    asked = [one for one in wanted if one.kind in _PLAIN]
    for index, parameter in enumerate(asked):
        optional = parameter.default is not inspect.Parameter.empty
        if index >= len(plain):
            if optional and inspect.Parameter.VAR_KEYWORD in kinds:
                continue
            return f'lacks parameter {parameter.name}'
        if by_name and plain[index].name != parameter.name:
            return f'{plain[index].name} is to be named {parameter.name}'
        if optional and plain[index].default != parameter.default:
            return f'{parameter.name} is to default to {parameter.default}'
    for parameter in plain[len(asked) :]:
        if parameter.default is inspect.Parameter.empty:
            return f'requires parameter {parameter.name}'
    return None


def only_raises(function):
    """Tell whether all that a function does is not to be implemented."""
    source = textwrap.dedent(inspect.getsource(function))
    last = ast.parse(source).body[0].body[-1]
    if not isinstance(last, ast.Raise):
        return False
    raised = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
    return isinstance(raised, ast.Name) and raised.id == 'NotImplementedError'


def _is_driver(node):
    return (
        isinstance(node, ast.Attribute)
        and node.attr == 'driver'
        and isinstance(node.value, ast.Name)
        and node.value.id == 'self'
    )


@functools.cache
def calls():
    """Return (method, positional arguments, keywords, where) of each call."""
    found = []
    root = pathlib.Path(cinder.__file__).parent
    for pattern in CALLERS:
        for path in sorted(root.glob(pattern)):
            for node in ast.walk(ast.parse(path.read_text('utf-8'))):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and _is_driver(node.func.value)
                ):
                    keywords = tuple(one.arg for one in node.keywords)
                    where = f'{path.name}:{node.lineno}'
                    found.append(
                        (node.func.attr, len(node.args), keywords, where)
                    )
    return found


def refused_call(function, arguments, keywords):
    """Return why a call of a method is refused; None if it is not."""
    try:
        inspect.signature(function).bind(
            None, *[None] * arguments, **dict.fromkeys(keywords)
        )
    except TypeError as error:
        return str(error)
    return None


def violations(cls, interfaces, not_implemented=NOT_IMPLEMENTED):
    """Return what a driver class lacks, as sentences."""
    found = []
    methods = public_methods(cls)
    wanted = {
        (one, name): function
        for one in interfaces
        for name, function in public_methods(one).items()
    }
    for (one, name), function in wanted.items():
        if name not in {*methods, 'initialized', 'supported'}:
            found.append(f'{name} of {one.__name__} is missing')
        elif name in methods:
            reason = incompatible(function, methods[name])
            if reason:
                found.append(f'{name} of {one.__name__}: {reason}')
    for name, function in methods.items():
        if only_raises(function) and name not in not_implemented:
            found.append(f'{name} is not implemented')
    found += [
        f'{name} is implemented, and said not to be'
        for name in not_implemented
        if name in methods and not only_raises(methods[name])
    ]
    for name, arguments, keywords, where in calls():
        function = inspect.getattr_static(cls, name, None)
        if isinstance(function, staticmethod | classmethod):
            continue
        if function is None:
            found.append(f'{name}, called in {where}, is missing')
        else:
            reason = refused_call(function, arguments, keywords)
            if reason:
                found.append(f'{name}, as called in {where}: {reason}')
    return found


class ComplianceTestCase(testtools.TestCase):
    def test_driver(self):
        self.assertEqual([], violations(driver.VDiskMapperDriver, INTERFACES))

    def test_registered(self):
        self.assertIn(driver.VDiskMapperDriver, interface._volume_register)
        self.assertTrue(
            issubclass(driver.VDiskMapperDriver, cinder_driver.VolumeDriver)
        )

    def test_overrides(self):
        """What replaces a method of Cinder's base takes what that took."""
        theirs = public_methods(cinder_driver.VolumeDriver)
        ours = public_methods(driver.VDiskMapperDriver)
        by_interface = {
            name for one in INTERFACES for name in public_methods(one)
        }
        self.assertEqual(
            {},
            {
                name: reason
                for name in theirs
                if name not in by_interface
                and (reason := incompatible(theirs[name], ours[name]))
            },
        )

    def test_every_interface_is_known(self):
        found = set()
        for module in pkgutil.iter_modules(interface.__path__):
            loaded = importlib.import_module(f'cinder.interface.{module.name}')
            for member in vars(loaded).values():
                if (
                    inspect.isclass(member)
                    # Cinder has issubclass() say yes to any class
                    and base.CinderInterface in member.__mro__[1:]
                ):
                    found.add(member)
        known = {one for listed in INTERFACES for one in listed.__mro__}
        self.assertEqual(
            {
                'BackupChunkedDriver',
                'BackupDriver',
                'FibreChannelZoneManagerDriver',
                'VolumeConsistencyGroupDriver',
            },
            {one.__name__ for one in found - known},
        )

    def test_filter(self):
        ours = scheduler.VDiskLocalityFilter
        self.assertTrue(issubclass(ours, filters.BaseBackendFilter))
        theirs = public_methods(filters.BaseBackendFilter)
        self.assertIn('backend_passes', theirs)
        self.assertFalse(only_raises(ours.backend_passes))
        for name, function in theirs.items():
            # Cinder's own filters have another name for the host's state
            self.assertIsNone(
                incompatible(function, public_methods(ours)[name], False), name
            )


class CheckTestCase(testtools.TestCase):
    """The check itself finds what is wrong."""

    def check(self, cls, **kwargs):
        return violations(cls, INTERFACES, **kwargs)

    def test_calls_are_found(self):
        names = {name for name, *_ in calls()}
        self.assertTrue(
            {'create_export', 'manage_existing', 'clone_image'} < names, names
        )

    def test_empty_class(self):
        found = self.check(type('Empty', (), {}))
        self.assertIn('create_volume of VolumeDriverCore is missing', found)
        self.assertIn('unmanage of VolumeListManageableDriver', str(found))
        self.assertTrue(
            [one for one in found if one.startswith('create_export, called')]
        )

    def test_base_class(self):
        found = self.check(cinder_driver.VolumeDriver)
        self.assertIn('create_snapshot is not implemented', found)
        self.assertIn('revert_to_snapshot is not implemented', found)
        self.assertNotIn('enable_replication is not implemented', found)

    def test_lacking_method(self):
        class Lacking(driver.VDiskMapperDriver):
            create_volume = None

        self.assertIn(
            'create_volume of VolumeDriverCore is missing', self.check(Lacking)
        )

    def test_signatures(self):
        class Wrong(driver.VDiskMapperDriver):
            def create_volume(self, volume, size):
                pass

            def delete_volume(self):
                pass

            def extend_volume(self, volume, size):
                pass

            def get_volume_stats(self, refresh=True):
                pass

            def terminate_connection(self, volume, connector):
                pass

        found = self.check(Wrong)
        for expected in (
            'create_volume of VolumeDriverCore: requires parameter size',
            'delete_volume of VolumeDriverCore: lacks parameter volume',
            'extend_volume of VolumeDriverCore: size is to be named new_size',
            'get_volume_stats of VolumeDriverCore: refresh is to default to '
            'False',
        ):
            self.assertIn(expected, found)
        self.assertIn("unexpected keyword argument 'force'", str(found))

    def test_implemented_after_all(self):
        class Implemented(driver.VDiskMapperDriver):
            def create_volume_from_backup(self, volume, backup):
                return None, True

        self.assertIn(
            'create_volume_from_backup is implemented, and said not to be',
            self.check(Implemented),
        )
