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
import json

import fixtures
from oslotest import base

from nova_diskplacer import exception
from nova_diskplacer.elastic.processes import step_socket
from nova_diskplacer.host import agent_socket
from nova_diskplacer.monitor import elastic_status
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example

STEP = elastic_status.WantedStep(
    vdisk='v', old=('a', 'a'), location=('a', 'b'), size_bytes=7, asked=1.5
)


class StepSocketTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path

    def close(self, server):
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def serve(self, step):
        self.close(step_socket.serve(self.dir, lambda: step))

    def answer(self, **answer):
        """Have an agent of another release answer."""
        self.close(
            agent_socket.serve(
                step_socket.path(self.dir), lambda: json.dumps(answer)
            )
        )

    def refusal(self):
        error = self.assertRaises(
            exception.AgentError, step_socket.fetch, self.dir
        )
        return str(error)

    def test_the_step_that_is_wanted(self):
        self.serve(STEP)
        self.assertEqual(STEP, step_socket.fetch(self.dir))

    def test_no_step_is_wanted(self):
        self.serve(None)
        self.assertIsNone(step_socket.fetch(self.dir))

    def test_an_agent_that_adds_a_field(self):
        step = {**dataclasses.asdict(STEP), 'later': 1}
        self.answer(version=1, step=step, more=2)
        self.assertEqual(STEP, step_socket.fetch(self.dir))

    def test_an_agent_whose_fields_mean_something_else(self):
        self.answer(version=2, step=dataclasses.asdict(STEP))
        self.assertIn('version 2 is not 1', self.refusal())
        self.assertIn('upgrade', self.refusal())

    def test_an_agent_that_lacks_a_field(self):
        step = dataclasses.asdict(STEP)
        del step['location']
        self.answer(version=1, step=step)
        self.assertIn('location', self.refusal())

    def test_answers_that_are_no_steps(self):
        for answer in (
            {},
            {'version': 1},
            {'version': 1, 'step': [1]},
            {'version': 1, 'step': {**vars(STEP), 'asked': 'now'}},
            {'version': 1, 'step': {**vars(STEP), 'location': [1]}},
        ):
            self.answer(**answer)
            self.assertIn('unknown format', self.refusal())

    def test_an_agent_without_this_socket(self):
        """An older one offers its step in the status alone."""
        self.close(status_socket.serve(self.dir, example.status_provider()))
        self.assertIn('upgrade it if it is older', self.refusal())
