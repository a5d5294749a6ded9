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


"""Programs of the cloud: how they are known, and signals to them."""

import pathlib
import signal
import subprocess

import fixtures
import testtools

from tools.minicloud import process


class SignalTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        script = 'sleep 60 & echo $!; wait'
        self.process = process.Process('one', ['sh', '-c', script], top, top)
        self.process.start()
        self.addCleanup(self.process.stop, 0)
        pid = process.wait('child', self.process.log.read_text, 30, 0.01)
        self.pids = [self.process.pid(), int(pid)]

    def wait_states(self, states):
        def have():
            found = ''
            for pid in self.pids:
                text = pathlib.Path(f'/proc/{pid}/stat').read_text()
                found += text.rpartition(')')[2].split()[0]
            return found in states

        process.wait(f'states {states}', have, 30, 0.01)

    def test_all_of_the_session_stop_and_go_on(self):
        self.process.signal_session(signal.SIGSTOP)
        self.wait_states(['TT'])
        self.process.signal_session(signal.SIGCONT)
        self.wait_states(['SS'])

    def test_all_of_the_session_are_killed(self):
        self.process.signal_session(signal.SIGKILL)
        for pid in self.pids:
            process.wait(
                'end', lambda pid=pid: not process.start_time(pid), 30, 0.01
            )
        self.assertFalse(self.process.running())
        # nobody is there to get it
        self.process.signal_session(signal.SIGKILL)


class StartTest(testtools.TestCase):
    def test_who_starts_it_is_killed_when_it_runs(self):
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        one = process.Process('one', ['sleep', '60'], top, top)
        popen = subprocess.Popen

        def start(*args, **options):
            self.addCleanup(popen(*args, **options).kill)
            raise SystemExit

        with fixtures.MonkeyPatch('subprocess.Popen', start):
            self.assertRaises(SystemExit, one.start)
        other = process.Process('one', [], top, top)
        self.assertTrue(other.running())
        other.stop()
        self.assertFalse(other.running())
