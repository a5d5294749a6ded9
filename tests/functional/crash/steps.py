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

"""Kills the process at a chosen step that others can see.

Steps are: system calls that change a disk, commands that are run, requests
that change Placement, and commits of Cinder's database. A process may die
after each of them, which is before the next, and before the first.
"""

import fcntl
import os
import signal
import subprocess

from oslo_config import cfg
from sqlalchemy import engine
from sqlalchemy import event
from sqlalchemy.engine import default

CONF = cfg.CONF

#: what changes files or directories
CALLS = (
    (os, 'copy_file_range'),
    (os, 'fchmod'),
    (os, 'fchown'),
    (os, 'ftruncate'),
    (os, 'link'),
    (os, 'posix_fallocate'),
    (os, 'pwrite'),
    (os, 'remove'),
    (os, 'rename'),
    (os, 'replace'),
    (os, 'sendfile'),
    (os, 'setxattr'),
    (os, 'truncate'),
    (os, 'unlink'),
    (fcntl, 'ioctl'),
)


class Steps:
    """Counts steps; kills the process at step ``fatal`` when ``armed``.

    :param last_words: called with the name of the step before that.
    """

    def __init__(self, fatal, last_words):
        self.fatal = fatal
        self.last_words = last_words
        self.count = 0
        self.last = ''
        self.repeated = 0
        self.armed = False
        # in Placement, which is another process everywhere but in tests
        self.away = False
        self.written = set()

    def install(self):
        """Have everything counted from now on."""
        for module, name in CALLS:
            self._wrap(module, name)
        self._wrap(subprocess.Popen, 'communicate')
        self._watch_commits()

    def start(self):
        """Arm; this is the step before the first."""
        self.armed = True
        self.after('nothing')

    def after(self, name):
        """Be at the step after something."""
        if not self.armed or self.away:
            return
        self.repeated = self.repeated + 1 if name == self.last else 1
        self.last = name
        if self.repeated & (self.repeated - 1):
            # a vdisk is allocated in many parts, one as good as another
            return
        self.count += 1
        if self.count == self.fatal:
            self.last_words(name)
            os.kill(os.getpid(), signal.SIGKILL)

    def around_placement(self, application):
        """Return a WSGI application that requests to change it are steps."""

        def answer(environ, start_response):
            self.away = True
            try:
                body = list(application(environ, start_response))
            finally:
                self.away = False
            method = environ['REQUEST_METHOD']
            if method != 'GET':
                self.after(f'{method} {environ["PATH_INFO"]}')
            return body

        return answer

    def _wrap(self, owner, name):
        function = getattr(owner, name)
        lock_files = f'{CONF.oslo_concurrency.lock_path}/'

        def counted(*args, **kwargs):
            result = function(*args, **kwargs)
            # the kernel releases the locks of who is killed, and a lock file
            # that stays is removed by the next to hold it
            if not str(args[0]).startswith(lock_files):
                self.after(name)
            return result

        setattr(owner, name, counted)

    def _watch_commits(self):
        @event.listens_for(engine.Engine, 'before_cursor_execute')
        def note(connection, cursor, statement, *args):
            if not statement.lstrip().upper().startswith(('SELECT', 'PRAGMA')):
                self.written.add(cursor.connection)

        commit = default.DefaultDialect.do_commit

        def counted(dialect, connection):
            raw = getattr(connection, 'dbapi_connection', connection)
            if raw not in self.written:
                return commit(dialect, connection)
            self.written.discard(raw)
            commit(dialect, connection)
            self.after('commit')

        default.DefaultDialect.do_commit = counted
