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

"""The whole command, with a reader of made-up facts."""

import contextlib
import io
import json
import types
from unittest import mock

import fixtures
from oslo_config import cfg
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.api import backend_media
from nova_diskplacer.cmd import status
from nova_diskplacer.cmd import upgrade_checks as checks
from nova_diskplacer.cmd import upgrade_facts
from nova_diskplacer.cmd import upgrade_quotas

OWN = checks.Software('control', '2.0.0', 'abc')
FILTER = 'nova_diskplacer.scheduler.filter.DiskPlacementFilter'


class Reader:
    """Facts of a cloud where all is well."""

    has_cloud = True
    software = OWN
    agents = ([checks.Software('compute-1', '2.0.0', 'abc')], [])
    schedulers = (OWN,)
    moves = True
    weighing_hosts = (
        checks.WeighingHost('compute-1', 'auto', frozenset({'ssd'})),
    )

    def nova(self):
        return types.SimpleNamespace(
            filter_scheduler=types.SimpleNamespace(
                enabled_filters=['DiskPlacementFilter'],
                available_filters=[
                    'nova.scheduler.filters.all_filters',
                    FILTER,
                ],
            ),
            diskplacer_scheduler=types.SimpleNamespace(moves=self.moves),
        )

    def cinder(self):
        return types.SimpleNamespace(
            scheduler_default_filters=['VDiskLocalityFilter']
        )

    def make_names(self):
        pass

    def cinder_hosts(self):
        return {'compute-1'}

    def hosts_without_moves(self):
        return set()

    def backends(self):
        return {'vdisk'}

    def pools(self):
        return [backend_media.Pool('compute-1', 'vdisk', 'ssd')]

    def quotas(self):
        return upgrade_quotas.Quotas(100, -1, -1)

    def flavors(self):
        return [checks.Flavor('f', 4, 100)]

    def volume_types(self):
        return [checks.VolumeType('fast', 'vdisk')], 'fast'


class StatusTest(base.BaseTestCase):
    def run_checks(self, reader):
        """Return the exit status, and the results by check."""
        conf = cfg.ConfigOpts()
        self.useFixture(
            fixtures.MonkeyPatch('nova_diskplacer.conf.CONF', conf)
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_diskplacer.cmd.upgrade_facts.Reader', lambda conf: reader
            )
        )
        file = self.useFixture(fixtures.TempDir()).join('nova.conf')
        open(file, 'w').close()
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = status.main(
                ['--config-file', file, 'upgrade', 'check', '--json']
            )
        found = json.loads(output.getvalue())['checks']
        return code, {one['check']: one for one in found}

    def test_all_is_well(self):
        code, found = self.run_checks(Reader())
        self.assertEqual(0, code, found)
        self.assertEqual(12, len(found))
        self.assertEqual({None}, {one['details'] for one in found.values()})

    def test_each_check_sees_its_facts(self):
        silent = ([], ['compute-9'])
        for name, attribute, value, code in (
            ('Agents', 'agents', silent, 2),
            ('Schedulers', 'schedulers', [checks.Software('s', '', '')], 1),
            (
                'Profiles of workloads',
                'schedulers',
                [checks.Software('s', '2.0.0', 'other')],
                2,
            ),
            (
                'Host names of Nova and Cinder',
                'cinder_hosts',
                lambda: {'other'},
                2,
            ),
            (
                'Servers that move',
                'hosts_without_moves',
                lambda: {'compute-1'},
                1,
            ),
            (
                'I/O weights',
                'weighing_hosts',
                [checks.WeighingHost('a', 'io.cost', frozenset({'hdd'}))],
                1,
            ),
            (
                'Volume quotas',
                'quotas',
                lambda: upgrade_quotas.Quotas(1, 1, 1),
                2,
            ),
            ('Volume types', 'backends', set, 2),
            (
                'Media of flavors',
                'pools',
                lambda: [
                    backend_media.Pool('compute-1', 'vdisk', 'ssd'),
                    backend_media.Pool('compute-1', 'slow', 'hdd'),
                ],
                2,
            ),
        ):
            reader = Reader()
            setattr(reader, attribute, value)
            found_code, found = self.run_checks(reader)
            self.assertEqual(code, found_code, name)
            self.assertEqual(
                {name}, {key for key in found if found[key]['result']}
            )

    def test_facts_that_cannot_be_read_fail_their_check_alone(self):
        reader = Reader()
        reader.make_names = mock.Mock(
            side_effect=exception.PlacementError('403 Forbidden')
        )
        code, found = self.run_checks(reader)
        self.assertEqual(2, code)
        failed = {key: one for key, one in found.items() if one['result']}
        self.assertEqual(['Rights in Placement'], list(failed))
        self.assertEqual(
            '403 Forbidden', failed['Rights in Placement']['details']
        )

    def test_without_credentials_apis_are_not_asked(self):
        reader = Reader()
        reader.has_cloud = False
        reader.quotas = reader.cinder_hosts = reader.volume_types = None
        reader.flavors = reader.hosts_without_moves = None
        code, found = self.run_checks(reader)
        self.assertEqual(0, code)
        self.assertEqual(
            6,
            sum(
                'OS_AUTH_URL' in (one['details'] or '')
                for one in found.values()
            ),
        )

    def test_the_file_of_cinder(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'oslo_upgradecheck.upgradecheck.UpgradeCommands.check',
                lambda commands: commands.cinder_filters().code,
            )
        )
        directory = self.useFixture(fixtures.TempDir())
        for filters, code in (
            ('VDiskLocalityFilter', 0),
            ('CapacityFilter', 2),
        ):
            file = directory.join('cinder.conf')
            self.useFixture(
                fixtures.MonkeyPatch(
                    'nova_diskplacer.conf.CONF', cfg.ConfigOpts()
                )
            )
            with open(file, 'w') as stream:
                stream.write(
                    f'[DEFAULT]\nscheduler_default_filters = {filters}\n'
                )
            self.assertEqual(
                code,
                status.main(
                    ['--cinder-config-file', file, 'upgrade', 'check']
                ),
            )

    def test_files_that_cannot_be_read(self):
        for file, reason in (
            ('/none.conf', '/none.conf'),
            ('/dev/full', 'a device'),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    'nova_diskplacer.conf.CONF', cfg.ConfigOpts()
                )
            )
            errors = io.StringIO()
            with contextlib.redirect_stderr(errors):
                code = status.main(['--config-file', file, 'upgrade', 'check'])
            self.assertEqual(255, code)
            self.assertIn(reason, errors.getvalue())


class ReadOptionsTest(base.BaseTestCase):
    def read(self, text):
        file = self.useFixture(fixtures.TempDir()).join('nova.conf')
        with open(file, 'w') as stream:
            stream.write(text)
        return upgrade_facts.read_options('nova', [file], upgrade_facts._NOVA)

    def test_named_files_go_before_the_directory(self):
        """As in nova-scheduler, which reads both."""
        directory = self.useFixture(fixtures.TempDir())
        with open(directory.join('own.conf'), 'w') as stream:
            stream.write(
                '[filter_scheduler]\nenabled_filters = Own\n'
                '[diskplacer_scheduler]\nmoves = true\n'
            )
        self.useFixture(
            fixtures.MockPatchObject(
                cfg, 'find_config_dirs', return_value=[directory.path]
            )
        )
        found = self.read('[filter_scheduler]\nenabled_filters = Named\n')
        self.assertEqual(['Named'], found.filter_scheduler.enabled_filters)
        self.assertTrue(found.diskplacer_scheduler.moves)

    def test_default_files_of_the_command(self):
        """They are the service's own default, not files that it is given."""
        for words, expected in (([], None), (['--config-file=/dev/null'], 1)):
            conf = cfg.ConfigOpts()
            conf(words, project='nova')
            with mock.patch.object(upgrade_facts, 'read_options') as read:
                upgrade_facts.Reader(conf).nova()
            files = read.call_args.args[1]
            self.assertEqual(expected, files and len(files))

    def test_unset(self):
        found = self.read('')
        self.assertIsNone(found.filter_scheduler.enabled_filters)
        self.assertEqual(
            ['nova.scheduler.filters.all_filters'],
            found.filter_scheduler.available_filters,
        )
        self.assertFalse(found.diskplacer_scheduler.moves)

    def test_set(self):
        found = self.read(
            '[filter_scheduler]\nenabled_filters = A, B\n'
            'available_filters = a\navailable_filters = b\n'
            '[diskplacer_scheduler]\nmoves = true\n'
        )
        self.assertEqual(['A', 'B'], found.filter_scheduler.enabled_filters)
        self.assertEqual(['a', 'b'], found.filter_scheduler.available_filters)
        self.assertTrue(found.diskplacer_scheduler.moves)

    def test_not_a_configuration(self):
        error = self.assertRaises(
            exception.DiskPlacerError, self.read, 'no equals sign\n'
        )
        self.assertIn('nova.conf', str(error))
