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

import contextlib
import io
import pathlib

import fixtures
import testtools

from nova_diskplacer import exception
from nova_diskplacer.agent import restore
from nova_diskplacer.cmd import agent


class TestRestore(testtools.TestCase):
    """``diskplacer-agent --restore``, for which no service is needed."""

    def setUp(self):
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.restored = []
        self.useFixture(
            fixtures.MockPatchObject(
                restore, 'restore_kernel_state', self.restore
            )
        )
        # the process's own, which others have registered options on
        self.useFixture(
            fixtures.MockPatchObject(agent.common, 'configure', self.configure)
        )
        self.wrong = False
        self.failure = None

    def configure(self, config_files, rest):
        self.assertEqual(['agent.conf'], config_files)
        if self.wrong:
            raise exception.DiskPlacerError('[group] option is wrong')

    def restore(self, conf):
        self.restored.append(conf)
        if self.failure:
            raise self.failure

    def run_restore(self):
        argv = ['diskplacer-agent', '--config-file', 'agent.conf', '--restore']
        self.useFixture(fixtures.MonkeyPatch('sys.argv', argv))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return agent.main(), said.getvalue()

    def test_restored(self):
        self.assertEqual((0, ''), self.run_restore())
        self.assertEqual([agent.conf.CONF], self.restored)

    def test_wrong_configuration(self):
        self.wrong = True
        # what other tests have set stays with the options
        agent.conf.register_opts(agent.conf.CONF)
        agent.conf.CONF.clear_override('state_dir', 'diskplacer_agent')
        status, said = self.run_restore()
        self.assertEqual(1, status)
        self.assertIn('[group] option is wrong', said)
        (conf,) = self.restored
        self.assertEqual('/run/diskplacer', conf.diskplacer_agent.state_dir)

    def test_not_restored(self):
        self.failure = exception.ContentionError('sda refuses')
        self.assertEqual(
            (1, 'diskplacer-agent: sda refuses\n'), self.run_restore()
        )
