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

import dataclasses

from oslotest import base

from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import plan
from tests.unit.nova_diskplacer.client.server_moves import test_reasons

Step = plan.Step
server, volume = test_reasons.server, test_reasons.volume


class PlanTest(base.BaseTestCase):
    def test_kinds(self):
        for state, wanted, kind, is_ready in (
            ('active', None, 'live', True),
            ('paused', None, 'live', True),
            ('stopped', None, 'cold', True),
            ('active', 'cold', 'cold', True),
            ('stopped', 'live', 'live', False),
            ('paused', 'cold', 'cold', False),
            ('error', None, 'live', False),
        ):
            planned = plan.plan(server(vm_state=state), wanted, ['host-b'])
            self.assertEqual(
                (kind, is_ready), (planned.kind, not planned.reasons), state
            )

    def test_server_that_only_moves_cold(self):
        planned = plan.plan(server(volume(is_file=True)), None, ['host-b'])
        self.assertIn('is attached as a file', planned.why_not)
        self.assertIn('moves with --cold', planned.why_not)
        for wanted, one in (
            ('live', server(volume(is_file=True))),
            (None, server(volume(is_file=True, has_snapshots=True))),
            (None, server()),
        ):
            planned = plan.plan(one, wanted, ['host-b'])
            self.assertNotIn('--cold', planned.why_not)

    def test_what_passes(self):
        for one, passes in (
            (server(task='rebooting'), True),
            (server(task='rebooting', is_locked=True), False),
            (server(vm_state='error'), False),
        ):
            self.assertEqual(passes, plan.plan(one).passes)


class FollowTest(base.BaseTestCase):
    def follow(self, kind, is_last=True, is_confirmed=False, **now):
        move = plan.Move(server(), kind, 'req-1', is_confirmed)
        return plan.follow(move, server(**now), is_last)

    def test_moves(self):
        for kind in facts.KINDS:
            self.assertIs(Step.WAIT, self.follow(kind, task='migrating'))
            # Nova has put it back
            self.assertIs(Step.FAILED, self.follow(kind))
            self.assertIs(Step.DONE, self.follow(kind, host='host-b'))
            error = {'vm_state': 'error', 'host': 'host-b'}
            self.assertIs(Step.FAILED, self.follow(kind, **error))
            self.assertIs(Step.WAIT, self.follow(kind, task='x', **error))

    def test_deleted(self):
        move = plan.Move(server(), facts.LIVE, 'req-1')
        self.assertIs(Step.DONE, plan.follow(move, None, False))

    def test_confirmation(self):
        now = {'vm_state': 'resized', 'host': 'host-b'}
        self.assertIs(Step.CONFIRM, self.follow(facts.COLD, **now))
        # once
        self.assertIs(
            Step.WAIT, self.follow(facts.COLD, is_confirmed=True, **now)
        )
        # never what somebody else has begun
        self.assertIs(
            Step.FAILED, self.follow(facts.COLD, is_last=False, **now)
        )
        self.assertIs(Step.FAILED, self.follow(facts.LIVE, **now))

    def test_left_the_host_by_other_means(self):
        shelved = dataclasses.replace(
            server(), vm_state='shelved_offloaded', host=''
        )
        move = plan.Move(server(), facts.LIVE, 'req-1')
        self.assertIs(Step.DONE, plan.follow(move, shelved, False))
