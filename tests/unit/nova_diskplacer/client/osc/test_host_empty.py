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

"""openstack vdisk host empty, beside a Nova and a Cinder that do things."""

import argparse
import io
import json
import re
import types
from unittest import mock

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer.client.osc import moves
from tests.unit.nova_diskplacer.client.osc import test_commands
from tests.unit.nova_diskplacer.client.osc import test_moves
from tests.unit.nova_diskplacer.client.osc.test_commands import CINDER
from tests.unit.nova_diskplacer.client.osc.test_commands import HDD
from tests.unit.nova_diskplacer.client.osc.test_commands import NOVA
from tests.unit.nova_diskplacer.client.osc.test_moves import EXPORT
from tests.unit.nova_diskplacer.client.osc.test_moves import HOST
from tests.unit.nova_diskplacer.client.osc.test_moves import OTHER
from tests.unit.nova_diskplacer.client.osc.test_moves import OTHER_DISK

MODULE = 'nova_diskplacer.client.server_moves.emptying'
STATUSES = {
    'active': 'ACTIVE',
    'stopped': 'SHUTOFF',
    'resized': 'VERIFY_RESIZE',
    'error': 'ERROR',
    'shelved_offloaded': 'SHELVED_OFFLOADED',
}


class EmptyHostTestCase(test_moves.MoveTestCase):
    """Nova ends each move while the command sleeps, as ``outcomes`` say."""

    def setUp(self):
        super().setUp()
        self.servers = {}
        self.volumes = {}
        self.attached = {}
        self.actions = {}
        self.migrations = []
        self.outcomes = {}
        self.begun = []
        self.away = []
        self.moving_from = None
        self.most = self.now = 0
        self.at_sleep = []
        self.stderr = io.StringIO()
        for name, function in (
            ('sleep', self.sleep),
            ('monotonic', lambda: self.now),
        ):
            patched = mock.patch(f'{MODULE}.time.{name}', function)
            patched.start()
            self.addCleanup(patched.stop)
        for url, answer in (
            (
                '/servers/detail',
                lambda request, _: {
                    'servers': [
                        self.shown(id_)
                        for id_, one in self.servers.items()
                        if one['host'] in request.qs['host']
                    ]
                },
            ),
            ('/servers/s[0-9]', self.show),
            ('/servers/s[0-9]/os-instance-actions(/req.*)?', self.show_action),
            (
                '/os-migrations',
                lambda request, _: {
                    'migrations': [
                        one
                        for one in self.migrations
                        if request.qs.get('instance_uuid', [one['server']])
                        == [one['server']]
                        and request.qs.get('status', [one['status']])
                        == [one['status']]
                    ]
                },
            ),
        ):
            self.requests.get(
                re.compile(re.escape(NOVA) + url + r'(\?.*)?$'), json=answer
            )
        self.requests.post(
            re.compile(re.escape(NOVA) + '/servers/s[0-9]/action'),
            json=self.act,
            headers={'x-openstack-request-id': 'req'},
        )
        self.disabled = self.requests.put(
            f'{NOVA}/os-services/id-of-{HOST}', json=self.change_service
        )
        self.requests.get(
            f'{CINDER}/volumes/detail',
            json=lambda *_: {'volumes': [*self.volumes.values()]},
        )
        self.requests.get(
            re.compile(re.escape(CINDER) + '/volumes/v[0-9]$'),
            json=lambda request, _: {
                'volume': self.volumes[request.path.rsplit('/', 1)[1]]
            },
        )
        self.requests.get(
            f'{CINDER}/attachments/detail',
            json=lambda request, _: {
                'attachments': [
                    {
                        'id': f'a-{id_}',
                        'volume_id': id_,
                        'instance': server,
                        'connection_info': {
                            'driver_volume_type': connection,
                            'vdisk': {
                                'host': HOST,
                                constants.MOVING_FROM: self.moving_from,
                            },
                        },
                    }
                    for id_, (server, connection) in self.attached.items()
                    if server
                    and [server] == request.qs.get('instance_id', [server])
                    and [id_] == request.qs.get('volume_id', [id_])
                ]
            },
        )

    def add(self, id_, vm_state='active', volumes=(), host=HOST, **fields):
        """Let there be a server with vdisks."""
        self.servers[id_] = {
            'host': host,
            'vm_state': vm_state,
            'task': None,
            'volumes': volumes,
            **fields,
        }
        for volume in volumes:
            self.add_volume(volume, id_)

    def add_volume(self, id_, server, connection='local', **fields):
        self.attached[id_] = server, connection
        attached = {'server_id': server, 'device': '/dev/vdb'}
        self.volumes[id_] = test_commands.volume(
            id_,
            HDD,
            **{
                'status': 'in-use',
                'os-vol-host-attr:host': f'{HOST}@vdisk#vdisk',
                'attachments': [attached] if server else [],
                **fields,
            },
        )

    def shown(self, id_):
        one = self.servers[id_]
        return {
            **self.server,
            'id': id_,
            'name': f'name-{id_}',
            'status': STATUSES.get(one['vm_state'], one['vm_state'].upper()),
            'OS-EXT-SRV-ATTR:host': one['host'],
            'OS-EXT-STS:vm_state': one['vm_state'],
            'OS-EXT-STS:task_state': one['task'],
            'OS-EXT-STS:power_state': 1,
            'locked': one.get('locked', False),
            'os-extended-volumes:volumes_attached': [
                {'id': volume} for volume in one['volumes']
            ],
        }

    def show(self, request, context):
        id_ = request.path.rsplit('/', 1)[1]
        if self.away:
            context.status_code = self.away.pop()
            return {}
        if id_ in self.servers:
            return {'server': self.shown(id_)}
        context.status_code = 404
        return {}

    def show_action(self, request, _):
        *_, id_, _, last = request.path.split('/')
        if last == 'os-instance-actions':
            id_ = request.path.split('/')[-2]
            return {'instanceActions': self.actions.get(id_, [])[::-1]}
        (one,) = [
            one for one in self.actions[id_] if one['request_id'] == last
        ]
        return {'instanceAction': one}

    def act(self, request, context):
        """Begin what the command asks for."""
        id_ = request.path.split('/')[-2]
        one = self.servers[id_]
        ((name, body),) = request.json().items()
        if one.get('fails'):
            context.status_code = one['fails'].pop()
            return {}
        if one['task'] or one.get('refuses'):
            context.status_code = 409
            text = f'Cannot {name} while {one["task"] or one["refuses"]}'
            return {'conflictingRequest': {'message': text}}
        if name == 'os-migrateLive':
            self.assertEqual({'host': None, 'block_migration': 'auto'}, body)
            self.begin(id_, 'live-migration')
        elif name == 'migrate':
            self.assertIsNone(body)
            self.begin(id_, 'migrate')
        else:
            self.assertEqual('confirmResize', name)
            self.begun.append((id_, 'confirm'))
            one['confirming'] = True
            return None
        self.begun.append((id_, name))
        count = sum(
            'migrat' in (one['task'] or '') for one in self.servers.values()
        )
        self.most = max(self.most, count)
        number = len(self.begun)
        self.actions[id_][-1]['request_id'] = f'req-{number}'
        context.headers['x-openstack-request-id'] = f'req-{number}'
        return None

    def begin(self, id_, action, request_id='req-foreign'):
        self.servers[id_]['task'] = f'migrating by {action}'
        self.actions.setdefault(id_, []).append(
            {'action': action, 'request_id': request_id, 'events': []}
        )
        self.migrations.append(
            {
                'id': len(self.migrations),
                'uuid': f'm{len(self.migrations)}',
                'server': id_,
                'instance_uuid': id_,
                'status': 'running',
            }
        )

    def sleep(self, seconds):
        """Let Nova end what it has begun."""
        self.now += seconds
        for function in self.at_sleep[:1]:
            self.at_sleep.remove(function)
            function()
        for id_, one in list(self.servers.items()):
            if one.pop('confirming', False):
                one['vm_state'] = one['before']
                self.migrations[-1]['status'] = 'confirmed'
            if 'migrating' not in (one['task'] or ''):
                continue
            action = self.actions[id_][-1]['action']
            one['task'] = None
            if id_ in self.outcomes:
                self.outcomes.pop(id_)(one)
            elif action == 'live-migration':
                one['host'] = OTHER
                self.migrations[-1]['status'] = 'completed'
            else:
                one['host'] = OTHER
                one['before'] = one['vm_state']
                one['vm_state'] = 'resized'
                self.migrations[-1]['status'] = 'finished'

    def change_service(self, request, _):
        self.services[0] |= request.json()
        return {'service': self.services[0]}

    def settle(self, id_, provider_id=OTHER_DISK):
        self.volumes[id_] |= {
            'os-vol-host-attr:host': f'{OTHER}@vdisk#vdisk',
            'provider_id': provider_id,
        }

    def empty(self, *arguments):
        """Return the exit status, and move, result, reason by server."""
        app = types.SimpleNamespace(
            client_manager=types.SimpleNamespace(vdisk=self.connection),
            stdout=io.StringIO(),
            stderr=self.stderr,
            options=argparse.Namespace(),
        )
        command = moves.EmptyHost(app, argparse.Namespace())
        args = command.get_parser('openstack').parse_args(
            ['-f', 'json', HOST, *arguments]
        )
        status = command.run(args)
        rows = json.loads(app.stdout.getvalue())
        return status, {
            row['Server ID']: tuple(
                row[name]
                for name in ('Move', 'Result', 'Reason')
                if name in row
            )
            for row in rows
        }


class PlanTest(EmptyHostTestCase):
    def test_states(self):
        self.add('s1', volumes=['v1'])
        self.add('s2', 'stopped')
        self.add('s3', 'building')
        self.add('s4', locked=True)
        self.add('s5', 'error')
        self.add('s6')
        self.add_volume('v2', 's6', 'gpfs')
        self.servers['s6']['volumes'] = ['v2']
        status, rows = self.empty('--plan')
        self.assertEqual(3, status)
        self.assertEqual(
            {
                's1': 'live',
                's2': 'cold',
                's3': 'later',
                's4': 'no',
                's5': 'no',
                's6': 'no',
            },
            {id_: row[0] for id_, row in rows.items()},
        )
        self.assertIn('moves with --cold', rows['s6'][1])
        self.assertEqual('cold', self.empty('--plan', '--cold')[1]['s6'][0])
        self.assertFalse(self.begun)
        self.assertFalse(self.disabled.called)

    def test_everything_moves(self):
        self.add('s1', volumes=['v1'])
        self.assertEqual(
            (0, {'s1': ('live', '')}), self.empty('--plan', '--parallel', '2')
        )

    def test_what_is_no_server_of_the_host(self):
        self.add('s1', 'shelved_offloaded', ['v1'], host=None)
        self.volumes['v1'] |= {'status': 'reserved', 'attachments': []}
        self.add_volume('v2', None, status='available')
        status, rows = self.empty('--plan')
        self.assertEqual(3, status)
        self.assertIn('openstack server unshelve s1', rows['s1'][1])
        self.assertIn('volume v2 of 10 GiB is attached to no', rows['-'][1])

    def test_host_that_is_down(self):
        self.services[0]['state'] = 'down'
        self.add('s1')
        for arguments in ((), ('--plan',)):
            error = self.assertRaises(
                exception.DiskPlacerError, self.empty, *arguments
            )
            self.assertIn(f'nova-compute of host {HOST} is down', str(error))
        self.assertFalse(self.disabled.called)

    def test_no_such_host(self):
        self.services = self.services[1:]
        error = self.assertRaises(exception.DiskPlacerError, self.empty)
        self.assertIn(f'there are: {OTHER}', str(error))


class EmptyTest(EmptyHostTestCase):
    def test_empty_host(self):
        self.assertEqual((0, {}), self.empty())

    def test_every_kind(self):
        self.add('s1')
        self.add('s2', 'stopped')
        status, rows = self.empty()
        self.assertEqual(0, status)
        self.assertEqual(
            {'s1': ('live', 'moved', ''), 's2': ('cold', 'moved', '')}, rows
        )
        self.assertEqual(
            [('s1', 'os-migrateLive'), ('s2', 'migrate'), ('s2', 'confirm')],
            self.begun,
        )
        self.assertEqual('stopped', self.servers['s2']['vm_state'])

    def test_parallel(self):
        for parallel in (1, 3):
            for number in range(5):
                self.add(f's{number}')
            self.most = 0
            self.assertEqual(0, self.empty('--parallel', str(parallel))[0])
            self.assertEqual(parallel, self.most)

    def test_only_one_kind(self):
        self.add('s1')
        self.add('s2', 'stopped')
        status, rows = self.empty('--live')
        self.assertEqual((3, 'moved'), (status, rows['s1'][1]))
        self.assertIn('is off', rows['s2'][2])
        self.add('s1')
        self.assertEqual(0, self.empty('--cold')[0])
        self.assertEqual('active', self.servers['s1']['vm_state'])
        self.assertIn(('s1', 'migrate'), self.begun)

    def test_migration_of_somebody_else_is_not_confirmed(self):
        """Another operator migrates a server that Nova has put back."""
        self.add('s1', 'stopped')

        def fail(one):
            self.begin('s1', 'migrate')

        self.outcomes['s1'] = fail
        status, rows = self.empty()
        self.assertEqual(3, status)
        self.assertIn('openstack server resize confirm s1', rows['s1'][2])
        self.assertNotIn(('s1', 'confirm'), self.begun)

    def test_unconfirmed_migration_before(self):
        self.add('s1', 'resized', host=OTHER)
        self.migrations = [
            {
                'id': 1,
                'server': 's1',
                'instance_uuid': 's1',
                'status': 'finished',
            }
        ]
        status, rows = self.empty()
        self.assertEqual(3, status)
        self.assertIn('openstack server resize confirm s1', rows['s1'][2])

    def test_wait_for_a_confirmation(self):
        """Its data follows the server after it."""
        self.add('s1', 'resized', ['v1'], host=OTHER)
        self.migrations = [
            {
                'id': 1,
                'server': 's1',
                'instance_uuid': 's1',
                'status': 'finished',
            }
        ]
        self.at_sleep = [
            lambda: self.servers['s1'].update(vm_state='active'),
            lambda: self.settle('v1'),
        ]
        self.assertEqual((0, {}), self.empty('--wait'))
        lines = self.stderr.getvalue().splitlines()
        data = [line for line in lines if 'of 1 vdisks' in line]
        self.assertTrue(data[0].endswith('; wait for a confirmation: s1'))
        self.assertTrue(data[1].endswith('of 1 vdisks'))

    def test_no_valid_host(self):
        self.add('s1')
        self.add('s2')

        def fail(_):
            self.actions['s1'][-1]['events'] = [
                {'event': 'conductor_x', 'result': 'Success'},
                {
                    'event': 'conductor_live_migrate_instance',
                    'result': 'Error',
                    'details': 'No valid host was found.',
                },
            ]

        self.outcomes['s1'] = fail
        status, rows = self.empty()
        self.assertEqual(3, status)
        self.assertIn('No valid host was found.', rows['s1'][2])
        self.assertEqual('moved', rows['s2'][1])
        # once in a run
        self.assertEqual(1, self.begun.count(('s1', 'os-migrateLive')))

    def test_reason_that_comes_later(self):
        """Nova ends the task of the server before the action."""
        self.add('s1')
        event = {'event': 'conductor_x', 'result': None}

        def fail(_):
            self.actions['s1'][-1]['events'] = [event]

        self.outcomes['s1'] = fail
        self.at_sleep = [
            lambda: None,
            lambda: None,
            lambda: event.update(result='Error', details='because'),
        ]
        _, rows = self.empty()
        self.assertIn('did not move it: because', rows['s1'][2])

    def test_reason_that_never_comes(self):
        self.add('s1')

        def fail(_):
            self.actions['s1'][-1]['events'] = [
                {'event': 'conductor_x', 'result': None}
            ]

        self.outcomes['s1'] = fail
        _, rows = self.empty()
        self.assertIn('it tells no reason', rows['s1'][2])
        self.assertLess(self.now, 100)

    def test_aborted(self):
        """Nova 34 sets the server to ERROR, and its guest runs on."""
        self.add('s1')

        def abort(one):
            one['vm_state'] = 'error'
            self.migrations[-1]['status'] = 'cancelled'

        self.outcomes['s1'] = abort
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertIn('its migration was aborted', rows['s1'][2])
        self.assertIn('server set --state active s1', rows['s1'][2])
        # the operator decides that
        self.assertEqual('error', self.servers['s1']['vm_state'])
        _, rows = self.empty()
        self.assertIn('server set --state active s1', rows['s1'][2])

    def test_error_on_the_other_host(self):
        self.add('s1')
        self.outcomes['s1'] = lambda one: one.update(
            host=OTHER, vm_state='error'
        )
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertIn(f'in ERROR on host {OTHER}', rows['s1'][2])

    def test_server_that_is_deleted(self):
        self.add('s1')
        self.at_sleep.append(self.servers.clear)
        status, rows = self.empty()
        self.assertEqual((0, 'deleted'), (status, rows['s1'][1]))

    def test_server_that_is_created(self):
        self.add('s1')
        self.at_sleep.append(lambda: self.add('s2'))
        status, rows = self.empty()
        self.assertEqual((0, 'moved'), (status, rows['s2'][1]))

    def test_another_operator_moves_a_server(self):
        self.add('s1')
        self.begin('s1', 'live-migration')
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertIn('has a task of Nova: migrating', rows['s1'][2])
        self.assertEqual((0, {}), self.empty('--wait'))
        self.assertFalse(self.begun)

    def test_another_operator_is_faster(self):
        """The task appears after the plan and before the request."""
        self.add('s1', refuses='task_state migrating')
        self.at_sleep.append(lambda: self.servers['s1'].pop('refuses'))
        self.assertEqual(0, self.empty('--wait')[0])

    def test_refused_for_good(self):
        self.add('s1', refuses='it has a vTPM')
        status, rows = self.empty('--wait')
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertIn('while it has a vTPM', rows['s1'][2])
        self.assertLess(self.now, 100)

    def test_request_that_nova_does_not_answer(self):
        """The server is moved when Nova answers again."""
        self.add('s1', fails=[503, 503])
        self.add('s2')
        self.assertEqual(0, self.empty()[0])
        self.assertEqual(['s1', 's2'], [id_ for id_, _ in self.begun])
        self.assertEqual(2, self.stderr.getvalue().count('asking again'))

    def test_request_that_nova_never_answers(self):
        """One server does not keep the others."""
        self.add('s1', fails=[500] * 99)
        self.add('s2')
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertEqual(['s2'], [id_ for id_, _ in self.begun])

    def test_request_that_is_wrong(self):
        self.add('s1', fails=[400])
        status, rows = self.empty()
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertNotIn('asking again', self.stderr.getvalue())

    def test_timeout(self):
        self.add('s1', 'stopped')
        self.outcomes['s1'] = lambda one: one.update(task='never ends')
        status, rows = self.empty('--timeout', '60')
        self.assertEqual((3, 'cold', 'under way'), (status, *rows['s1'][:2]))
        self.assertIn('openstack server resize confirm s1', rows['s1'][2])
        self.assertLessEqual(self.now, 60)

    def test_interrupt(self):
        self.add('s1', 'stopped')
        self.add('s2')

        def interrupt():
            raise KeyboardInterrupt

        self.at_sleep.append(interrupt)
        self.assertRaises(KeyboardInterrupt, self.empty)
        text = self.stderr.getvalue()
        self.assertIn('openstack server resize confirm s1', text)
        self.assertIn('The same command goes on.', text)
        self.assertIn('compute service set --enable', text)
        self.assertEqual([('s1', 'migrate')], self.begun)

    def test_api_that_stays_away(self):
        self.add('s1', 'stopped')
        self.at_sleep.append(lambda: self.away.extend([503] * 100))
        self.assertRaisesRegex(
            exception.DiskPlacerError, 'server s1', self.empty
        )
        self.assertIn('resize confirm s1', self.stderr.getvalue())

    def test_api_that_is_away_for_a_while(self):
        self.add('s1')
        self.away = [503, 503]
        self.assertEqual(0, self.empty()[0])
        self.assertIn('asking again', self.stderr.getvalue())
        self.assertEqual(1, len(self.begun))

    def test_api_that_is_away_for_good(self):
        self.add('s1')
        self.away = [503] * 20
        self.assertRaises(exception.DiskPlacerError, self.empty)
        self.assertEqual([('s1', 'os-migrateLive')], self.begun)

    def test_volumes_settle(self):
        self.server['flavor']['extra_specs'] |= {
            'diskplacer:vdisks': '2',
            'diskplacer:mapping': 'consolidated',
        }
        self.add('s1', volumes=['v1', 'v2'])
        status, rows = self.empty()
        # moved, and its data is here still
        self.assertEqual((3, 'live', 'left'), (status, *rows['s1'][:2]))
        self.assertIn('data of 2 of its vdisks is still on', rows['s1'][2])

        self.volumes['v1']['provider_id'] = EXPORT
        # the volume is on the other host, and this one has yet to delete it
        self.moving_from = HOST
        self.at_sleep = [
            lambda: self.settle('v1', provider_id=EXPORT),
            lambda: self.settle('v2'),
            lambda: self.settle('v1'),
        ]
        self.assertEqual((0, {}), self.empty('--wait'))
        self.assertEqual([], self.at_sleep)
        self.assertIn('20 GiB of 2 vdisks', self.stderr.getvalue())
        self.assertIn('10 GiB of 1 vdisks', self.stderr.getvalue())

    def test_volumes_of_a_server_in_error(self):
        """They do not follow it: there is nothing to wait for."""
        self.add('s1', 'error', ['v1'], host=OTHER)
        status, rows = self.empty('--wait')
        self.assertEqual((3, 'left'), (status, rows['s1'][1]))
        self.assertEqual(0, self.now)

    def test_volume_that_cinder_does_not_know(self):
        self.add('s1', volumes=['v1'])
        del self.volumes['v1'], self.attached['v1']
        self.requests.get(f'{CINDER}/volumes/v1', status_code=404)
        self.assertEqual(0, self.empty()[0])


class ServiceTest(EmptyHostTestCase):
    def test_disabled(self):
        self.empty()
        body = self.disabled.last_request.json()
        self.assertEqual('disabled', body['status'])
        command = f'openstack compute service set --enable {HOST} nova-compute'
        self.assertTrue(body['disabled_reason'].endswith(command))
        self.assertIn(command, self.stderr.getvalue())
        # again: it is as it was
        self.empty()
        self.assertEqual(1, self.disabled.call_count)

    def test_disabled_by_another_operator(self):
        self.services[0] |= {
            'status': 'disabled',
            'disabled_reason': 'broken fan',
        }
        self.empty()
        self.assertFalse(self.disabled.called)
        self.assertIn('broken fan', self.stderr.getvalue())

    def test_disabled_by_nova_itself(self):
        """Nova would enable it again by itself."""
        self.services[0] |= {
            'status': 'disabled',
            'disabled_reason': 'AUTO: Connection to libvirt lost',
        }
        self.empty()
        body = self.disabled.last_request.json()
        self.assertEqual('disabled', body['status'])
        self.assertIn('set --enable', body['disabled_reason'])
