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

"""VDiskLocalityFilter."""

import uuid
from unittest import mock

import fixtures
import testtools
from cinder import context
from cinder.api.schemas import scheduler_hints
from cinder.api.validation import validators
from cinder.scheduler.filters import capacity_filter

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper import scheduler
from nova_diskplacer import nova_server

SERVER = str(uuid.uuid4())
BLANK = f'{SERVER}-blank-vol'
HINT = {'local_to_instance': SERVER}
IMAGE = str(uuid.uuid4())
REQUEST = f'req-{uuid.uuid4()}'
MEMBER = context.RequestContext('user', 'project', is_admin=False)


class FilterTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(
            capacity_filter.CapacityFilter, 'backend_passes', return_value=True
        )
        self.has_capacity = patch.start()
        self.addCleanup(patch.stop)


class CapacityFilterTestCase(testtools.TestCase):
    def test_warning(self):
        scheduler._check_filters.cache_clear()
        self.addCleanup(scheduler._check_filters.cache_clear)
        log = self.useFixture(fixtures.FakeLogger())
        conf = mock.Mock(scheduler_default_filters=['CapacityFilter'])
        with mock.patch.object(scheduler, 'CONF', conf):
            for _ in range(2):
                scheduler.VDiskLocalityFilter()
        self.assertEqual(1, log.output.count('Remove CapacityFilter'))


class LocalityTestCase(FilterTestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(
            nova_api,
            'get',
            return_value=nova_api.Server(SERVER, 'project', 'host1', None),
        )
        self.get = patch.start()
        self.addCleanup(patch.stop)
        self.filter = scheduler.VDiskLocalityFilter()

    def passes(self, name='data', hints=None, host='host1', ours=True):
        """Tell whether a backend of a host passes."""
        capabilities = {'vdisk_mapper': True} if ours else {}
        backend = mock.Mock(
            backend_id=f'{host}@vdisk#vdisk', capabilities=capabilities
        )
        return self.filter.backend_passes(
            backend,
            {
                'context': context.RequestContext(
                    'user', 'project', is_admin=False
                ),
                'scheduler_hints': hints,
                'request_spec': {'volume_properties': {'display_name': name}},
            },
        )

    def test_not_for_a_server(self):
        for name in ('data', None, 'a-blank-vol'):
            self.assertTrue(self.passes(name, None))
            self.assertTrue(self.passes(name, {'same_host': 'x'}))
        self.get.assert_not_called()

    def test_hints_that_the_api_lets_pass(self):
        schema = validators._SchemaValidator(scheduler_hints.create)
        for hints in (
            None,
            {},
            {'local_to_instance': None},
            {'other': [None]},
            {'local_to_instance': SERVER},
            # as any other text for a UUID
            {'local_to_instance': SERVER.upper()},
            {'local_to_instance': f'urn:uuid:{SERVER}'},
            {'local_to_instance': f'{{{SERVER}}}'},
        ):
            schema.validate({'OS-SCH-HNT:scheduler_hints': hints})
            self.assertTrue(self.passes('data', hints))
        # and what other releases of it may let pass
        for hint in (5, True, [SERVER], {SERVER: 1}, 'x', f' {SERVER}'):
            self.assertFalse(self.passes('data', {'local_to_instance': hint}))

    def test_a_name_is_one_line_of_the_log(self):
        """Cinder lets users put anything into the name of a volume."""
        with self.assertLogs(scheduler.LOG.logger, 'WARNING') as logged:
            self.assertTrue(
                self.passes('a\nERROR all is lost\x1b[2J-blank-vol')
            )
        (line,) = logged.output
        self.assertIn(r"'a\nERROR all is lost\x1b[2J'", line)

    def test_other_backends_need_capacity_only(self):
        for has in (True, False):
            self.has_capacity.return_value = has
            self.assertEqual(
                has, self.passes(BLANK, HINT, 'host2', ours=False)
            )
        self.get.assert_not_called()

    def test_capacity_of_the_host_of_the_server(self):
        """What is claimed is not free, but for whoever claims it."""
        self.has_capacity.return_value = False
        self.assertTrue(self.passes(BLANK))
        self.assertFalse(self.passes())

    def test_host_of_the_server(self):
        for name, hints in ((BLANK, None), ('data', HINT), (None, HINT)):
            self.assertTrue(self.passes(name, hints))
            self.assertFalse(self.passes(name, hints, 'host2'))
        self.get.assert_called_once_with(mock.ANY, SERVER)

    def test_the_hint_comes_before_the_name(self):
        self.assertTrue(self.passes(f'{uuid.uuid4()}-blank-vol', HINT))
        self.get.assert_called_once_with(mock.ANY, SERVER)

    def test_no_such_server(self):
        self.get.return_value = None
        self.assertTrue(self.passes(BLANK, host='host2'))
        other = {'local_to_instance': str(uuid.uuid4())}
        self.assertFalse(self.passes('data', other))
        self.assertFalse(self.passes('data', {'local_to_instance': 'x'}))

    def test_refused(self):
        for answer in (
            nova_api.Server(SERVER, 'other', 'host1', None),
            nova_api.Server(SERVER, 'project', None, None),
            nova_server.NovaError('away'),
        ):
            self.get.side_effect = [answer]
            for name, hints in ((BLANK, None), ('data', HINT)):
                self.assertFalse(self.passes(name, hints))
            self.filter = scheduler.VDiskLocalityFilter()


class BootFromImageTest(FilterTestCase):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(
            nova_api, 'hosts_of_request', return_value={'host1'}
        )
        self.ask = patch.start()
        self.addCleanup(patch.stop)
        self.filter = scheduler.VDiskLocalityFilter()

    def passes(
        self, host, request_id=REQUEST, image=IMAGE, ours=True, **properties
    ):
        """Tell whether a backend passes where 10 GiB are not claimed."""
        capabilities = {
            'vdisk_mapper': ours,
            'vdisk_largest_free_gb': 20,
            'vdisk_largest_unclaimed_gb': 10,
        }
        spec = {
            'image_id': image,
            'volume_properties': {
                'status': 'creating',
                'display_name': '',
                'size': 10,
                **properties,
            },
        }
        return self.filter.backend_passes(
            mock.Mock(
                backend_id=f'{host}@vdisk#vdisk', capabilities=capabilities
            ),
            {
                'context': context.RequestContext(
                    'user',
                    'project',
                    is_admin=False,
                    global_request_id=request_id,
                ),
                'request_spec': spec,
            },
        )

    def test_the_host_of_the_server(self):
        self.assertTrue(self.passes('host1'))
        self.assertFalse(self.passes('host2'))
        # once per request
        self.ask.assert_called_once_with(mock.ANY, REQUEST)
        # other drivers need capacity only
        self.assertTrue(self.passes('host2', ours=False))

    def test_what_is_claimed_is_for_the_driver_to_know(self):
        """Servers may have gone since the backend's last report."""
        self.has_capacity.return_value = False
        self.assertTrue(self.passes('host1', size=20))
        self.assertFalse(self.passes('host1', size=21))

    def test_no_host_or_several(self):
        for hosts in (set(), {'host1', 'host2'}):
            self.ask.return_value = hosts
            self.filter = scheduler.VDiskLocalityFilter()
            for host in ('host1', 'host2', 'host3'):
                self.assertTrue(self.passes(host))
            self.assertFalse(self.passes('host1', size=11))

    def test_nova_does_not_answer(self):
        self.ask.side_effect = nova_server.NovaError('away')
        with self.assertLogs(scheduler.LOG.logger, 'ERROR') as logged:
            for host in ('host1', 'host2'):
                self.assertTrue(self.passes(host))
        self.assertEqual(1, len(logged.output))

    def test_not_of_a_boot(self):
        """Nova is not asked about volumes that it does not create."""
        for different in (
            {'request_id': None},
            {'image': None},
            {'image': None, 'snapshot_id': IMAGE},
            {'display_name': 'mine'},
            # those that exist are retyped or migrated
            {'status': 'retyping'},
            {'status': 'available'},
        ):
            self.assertTrue(self.passes('host2', **different), different)
        self.ask.assert_not_called()


class LargestVDiskTestCase(FilterTestCase):
    def passes(
        self,
        volume_properties,
        of=None,
        snapshot_id=None,
        source_volid=None,
        group_id=None,
        **capabilities,
    ):
        """Tell whether a backend passes where no disk has 11 GiB free."""
        backend = mock.Mock(
            backend_id='node@vdisk#vdisk',
            capabilities={
                'vdisk_mapper': True,
                'vdisk_largest_free_gb': 10,
                'vdisk_largest_unclaimed_gb': 10,
                **capabilities,
            },
        )
        return scheduler.VDiskLocalityFilter().backend_passes(
            backend,
            {
                'context': of or MEMBER,
                'request_spec': {
                    'volume_properties': volume_properties,
                    'snapshot_id': snapshot_id,
                    'source_volid': source_volid,
                    'group_id': group_id,
                },
            },
        )

    def test_new(self):
        new = {'status': 'creating'}
        self.assertTrue(self.passes({**new, 'size': 10}))
        self.assertFalse(self.passes({**new, 'size': 11}))
        self.assertTrue(self.passes({**new, 'size': 11}, vdisk_mapper=False))
        # a service that was not upgraded yet
        self.assertTrue(
            self.passes({**new, 'size': 11}, vdisk_largest_unclaimed_gb=None)
        )

    def test_claimed(self):
        claimed = {'vdisk_largest_unclaimed_gb': 5}
        new = {'status': 'creating'}
        self.assertTrue(self.passes({**new, 'size': 5}, **claimed))
        self.assertFalse(self.passes({**new, 'size': 6}, **claimed))
        with mock.patch.object(
            scheduler.VDiskLocalityFilter,
            '_find',
            return_value=scheduler._Placed('node'),
        ):
            blank = {**new, 'display_name': BLANK}
            self.assertTrue(self.passes({**blank, 'size': 10}, **claimed))
            self.assertFalse(self.passes({**blank, 'size': 11}, **claimed))
        with mock.patch.object(
            scheduler.VDiskLocalityFilter,
            '_find',
            return_value=scheduler._Placed('node', 3),
        ):
            self.assertTrue(self.passes({**blank, 'size': 30}, **claimed))
            self.assertFalse(self.passes({**blank, 'size': 31}, **claimed))

    def test_existing(self):
        here = {'host': 'node@vdisk#vdisk', 'size': 11}
        for status in ('extending', 'retyping', 'available'):
            self.assertTrue(self.passes({'status': status, **here}))
        there = {'host': 'else@vdisk#vdisk', 'status': 'available'}
        self.assertTrue(self.passes({'size': 10, **there}))
        self.assertFalse(self.passes({'size': 11, **there}))

    def test_existing_without_its_server(self):
        """The name counts for a volume that its server has, and elsewhere."""
        detached = {
            'host': 'node@vdisk#vdisk',
            'status': 'extending',
            'attach_status': 'detached',
            'display_name': BLANK,
            'project_id': 'project',
            'size': 10,
        }
        admin = context.RequestContext('admin', 'admins', is_admin=True)
        elsewhere = nova_api.Server(SERVER, 'project', 'other', None)
        for answer in (
            elsewhere,
            nova_api.Server(SERVER, 'project', None, None),
            nova_server.NovaError('away'),
        ):
            with mock.patch.object(nova_api, 'get', side_effect=[answer]):
                self.assertTrue(self.passes(detached, admin))
            with mock.patch.object(nova_api, 'get', side_effect=[answer]):
                there = {**detached, 'host': 'else@vdisk#vdisk'}
                self.assertTrue(self.passes(there, admin))
        attached = {
            **detached,
            'host': 'node@other#vdisk',
            'attach_status': 'attached',
        }
        with mock.patch.object(nova_api, 'get', return_value=elsewhere):
            self.assertFalse(self.passes(attached, admin))
        here = nova_api.Server(SERVER, 'project', 'node', None)
        with mock.patch.object(nova_api, 'get', return_value=here):
            self.assertTrue(self.passes(attached, admin))
            other = {**attached, 'project_id': 'other'}
            self.assertFalse(self.passes(other, admin))

    def test_copies(self):
        """The driver checks the disks of the source, also of a stripe."""
        for spec in (
            {'snapshot_id': IMAGE, 'volume_properties': {'size': 40}},
            {
                'source_volid': IMAGE,
                'volume_properties': {'size': 40, 'status': 'creating'},
            },
        ):
            self.assertTrue(self.passes(**spec))
        # a group of another one: the size is that of all of its volumes
        of_group = {'group_id': IMAGE, 'volume_properties': {'size': 40}}
        self.assertTrue(self.passes(**of_group))
        new = {'size': 40, 'status': 'creating'}
        self.assertFalse(self.passes(new, group_id=IMAGE))
        self.has_capacity.return_value = False
        self.assertFalse(self.passes(**spec))
        # one of a server may fill its claim
        with mock.patch.object(
            scheduler.VDiskLocalityFilter,
            '_find',
            return_value=scheduler._Placed('node'),
        ):
            copy = {'status': 'creating', 'display_name': BLANK, 'size': 10}
            self.assertTrue(self.passes(copy, snapshot_id=IMAGE))
            copy['size'] = 11
            self.assertFalse(self.passes(copy, snapshot_id=IMAGE))

    def test_requests_about_no_volume(self):
        self.assertTrue(self.passes({}))
        self.assertTrue(self.passes(None))
        backend = mock.Mock(
            backend_id='node@vdisk#vdisk', capabilities={'vdisk_mapper': True}
        )
        self.assertTrue(
            scheduler.VDiskLocalityFilter().backend_passes(backend, {})
        )
