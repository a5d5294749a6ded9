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

import testtools

from cinder_vdisk_mapper.audit import state

OVER = ('cancelled', 'completed', 'confirmed', 'error', 'failed', 'reverted')


class MigrationsTestCase(testtools.TestCase):
    def is_over(self, status, servers, **others):
        migrations = {'m': ('server', status), **others}
        return state.migrations(servers, migrations)['m'].is_over

    def test_which_are_over(self):
        for status, over in (
            *dict.fromkeys(OVER, True).items(),
            ('accepted', False),
            ('confirming', False),
            ('finished', False),
            ('migrating', False),
            ('post-migrating', False),
            ('preparing', False),
            ('queued', False),
            ('reverting', False),
            ('what Nova may add', False),
        ):
            for server, task, quiet in (
                ('ACTIVE', None, True),
                ('ERROR', None, True),
                ('SHELVED_OFFLOADED', None, True),
                ('ACTIVE', 'resize_prep', False),
                ('SHELVED_OFFLOADED', 'unshelving', False),
                ('VERIFY_RESIZE', None, False),
                ('RESIZE', 'resize_finish', False),
                ('MIGRATING', 'migrating', False),
                ('UNKNOWN', None, False),
            ):
                self.assertEqual(
                    over and quiet,
                    self.is_over(status, {'server': (server, task)}),
                    (status, server, task),
                )

    def test_which_are_forgotten(self):
        for status, server, task, forgotten in (
            ('queued', 'ACTIVE', None, True),
            ('preparing', 'ERROR', None, True),
            ('running', 'PAUSED', None, True),
            ('running', 'MIGRATING', 'migrating', False),
            # of cold migrations, and ended
            ('pre-migrating', 'ACTIVE', None, False),
            ('finished', 'VERIFY_RESIZE', None, False),
            ('error', 'ACTIVE', None, False),
        ):
            (found,) = state.migrations(
                {'server': (server, task)}, {'m': ('server', status)}
            ).values()
            self.assertEqual(forgotten, found.is_forgotten, (status, server))
        # its cell may not answer
        (found,) = state.migrations({}, {'m': ('server', 'running')}).values()
        self.assertFalse(found.is_forgotten)

    def test_whose_server_is_deleted(self):
        self.assertTrue(self.is_over('error', {}))
        self.assertFalse(self.is_over('migrating', {}))

    def test_while_another_one_is_under_way(self):
        servers = {'server': ('ACTIVE', None), 'other': ('ACTIVE', None)}
        for other, over in (
            (('server', 'finished'), False),
            (('server', 'error'), True),
            (('other', 'finished'), True),
        ):
            self.assertEqual(over, self.is_over('error', servers, n=other))


class ElsewhereTestCase(testtools.TestCase):
    def test_servers_at_rest(self):
        for status, task, move, found in (
            ('ACTIVE', None, None, True),
            ('ERROR', None, ('server', 'error'), True),
            ('ACTIVE', 'migrating', None, False),
            ('REBUILD', None, None, False),
            ('VERIFY_RESIZE', None, None, False),
            ('ACTIVE', None, ('server', 'pre-migrating'), False),
            # a live migration that Nova has forgotten
            ('ACTIVE', None, ('server', 'running'), True),
            ('ACTIVE', 'migrating', ('server', 'running'), False),
            # evacuated, and its former host has not started since
            ('ACTIVE', None, ('server', 'done'), True),
            ('ACTIVE', None, ('other', 'pre-migrating'), True),
        ):
            places = {'server': 'there', 'here': 'host1'}
            servers = {'server': (status, task), 'here': ('ACTIVE', None)}
            self.assertEqual(
                {'server': 'there'} if found else {},
                state.elsewhere(
                    servers, {'m': move} if move else {}, places, {'host1'}
                ),
                (status, task, move),
            )
