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

"""Commands, each in a forked process with standard streams of its own."""

import contextlib
import importlib
import io
import json
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import unittest
from importlib import metadata

# Seconds that a command may take on a busy machine.
PATIENCE = 60
# Bytes: a command that reads an endless file must not take all memory.
MEMORY = 8 << 30

# Exit status of oslo.upgradecheck for an error of the command itself.
UNCHECKED = 255

# Nobody listens there.
CLOUD = ('--os-auth-type', 'none', '--os-endpoint', 'http://127.0.0.1:1')


def mains():
    """Return the main functions of the project's commands by name."""
    found = metadata.distribution('nova-diskplacer').entry_points
    return {
        one.name: one.load() for one in found if one.group == 'console_scripts'
    }


def openstack():
    """Return the main function of openstackclient, which has been loaded."""
    for name in [name for name in os.environ if name.startswith('OS_')]:
        del os.environ[name]
    main = importlib.import_module('openstackclient.shell').main
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        # it finds its plugins, and keeps them
        main([*CLOUD, 'vdisk', 'profile', 'list'])
    return main


class CommandTestCase(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.top)
        self.mains = mains()

    def run_command(
        self, main, words, stdout=None, encoding='utf-8', argv=None
    ):
        """Run a command; returns its status and what it has said."""
        said = self.top / 'stderr'
        said.write_bytes(b'')
        child = os.fork()
        if child == 0:
            status = 70
            try:
                signal.alarm(PATIENCE)
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                self._redirect(stdout, said, encoding)
                os.chdir(self.top)
                sys.argv = [argv or 'command', *words]
                status = main()
            except SystemExit as end:
                status = end.code
            except BaseException:
                traceback.print_exc()
            finally:
                self._end(status)
        _, waited = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(waited), said.read_text('utf-8')

    def _redirect(self, stdout, said, encoding):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        error = os.open(said, os.O_WRONLY)
        os.dup2(error, 2)
        sys.stdin = open(0)  # noqa: SIM115 for the life of the process
        sys.stderr = io.TextIOWrapper(
            open(2, 'wb', buffering=0), 'utf-8', 'replace', write_through=True
        )
        if stdout == 'closed':
            os.close(1)
            sys.stdout = None
            return
        if stdout == 'pipe':
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
        else:
            os.dup2(os.open(stdout or os.devnull, os.O_WRONLY), 1)
        sys.stdout = open(1, 'w', encoding=encoding)  # noqa: SIM115

    def _end(self, status):
        # as the interpreter does at its end
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except Exception:
            traceback.print_exc()
            status = 120
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = int(status is not None)
        os._exit(status & 0xFF)

    def in_process(self, work):
        """Call a function in a process, which has what it loads to itself.

        Return what it returns, as JSON has it.
        """
        told = self.top / 'told'
        child = os.fork()
        if child == 0:
            status = 1
            try:
                told.write_text(json.dumps(work()))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        self.assertEqual(0, status)
        return json.loads(told.read_text())
