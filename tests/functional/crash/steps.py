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

Steps are: system calls that change a disk, commands that do more than read,
requests that change Placement, and commits of Cinder's database. A process
may die after each of them, which is before the next, and before the first.
"""

import difflib
import fcntl
import itertools
import os
import signal
import sqlite3
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
    (os, 'symlink'),
    (os, 'truncate'),
    (os, 'unlink'),
    (fcntl, 'ioctl'),
)


# ioctl requests that only read: LOOP_GET_STATUS64, of linux/loop.h
_READING_REQUESTS = {0x4C05}

# words of commands that only read: Cinder's, about an image and the host
_READING_WORDS = {
    'blkid',
    'cat',
    'dmidecode',
    'findmnt',
    'info',
    'of=/dev/null',
}

# A call that is repeated less often is a step each time.
_SHORT = 6


def choose(taken):
    """Return the steps to die at, as numbers, of those that a run has taken.

    :param taken: (name, state) after each step. Of a call that is repeated
        many times, as one that allocates part by part, those are chosen where
        it begins and ends, and those around where the state begins to change
        or ceases to.
    """
    chosen = set()
    start = 0
    for end in range(1, len(taken) + 1):
        if end < len(taken) and taken[end][0] == taken[start][0]:
            continue
        chosen.update(
            _of_one_call([state for _, state in taken[start:end]], start)
        )
        start = end
    return sorted(chosen)


def added(taken, others):
    """Return the numbers of the steps that another operation does not take.

    :param taken: (name, state) after each step, and ``others`` likewise.
    """
    names = [
        # of which resource provider does not matter
        [name.partition('/')[0] for name, _ in steps]
        for steps in (others, taken)
    ]
    matcher = difflib.SequenceMatcher(None, *names, autojunk=False)
    return {
        number
        for tag, _, _, start, end in matcher.get_opcodes()
        if tag != 'equal'
        for number in range(start, end)
    }


def _of_one_call(states, start):
    count = len(states)
    if count <= _SHORT:
        return {start + number for number in range(count)}
    moves = [
        before != after
        for before, after in itertools.pairwise([states[0], *states])
    ]
    found = {0, count - 1}
    for number in range(2, count):
        if moves[number] != moves[number - 1]:
            found |= {number - 1, number, min(number + 1, count - 1)}
    return {start + number for number in found}


class Steps:
    """Notes steps; kills the process after step ``fatal`` when ``armed``.

    :param fatal: its number, from 0 on; None for none.
    :param last_words: called with the name of that step.
    :param failing: that step is a commit, which fails in place of the kill,
        with all commits after it.
    """

    def __init__(self, fatal, last_words, failing=False):
        self.fatal = fatal
        self.failing = failing
        self.last_words = last_words
        self.taken = []
        self.armed = False
        # in Placement, which is another process everywhere but in tests
        self.away = False
        self.written = set()

    def install(self):
        """Have everything noted from now on."""
        for module, name in CALLS:
            self._wrap(module, name)
        self._wrap(subprocess.Popen, 'communicate')
        self._watch_commits()

    def start(self):
        """Arm; this is the step before the first."""
        self.armed = True
        self.after('nothing')

    def after(self, name, state=None):
        """Have taken a step.

        :param state: what tells whether it has changed anything.
        """
        if not self.armed or self.away:
            return
        if len(self.taken) == self.fatal and not self.failing:
            self.last_words(name)
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken.append((name, state))

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
            if not (str(args[0]).startswith(lock_files) or _reads(name, args)):
                request = f' {args[1]:#x}' if name == 'ioctl' else ''
                self.after(name + request, _size(args[0]))
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
            counts = self.armed and not self.away
            if counts and self.failing and len(self.taken) == self.fatal:
                self.last_words('a commit that failed')
                # and so do the next ones, until the operation has ended
                raise sqlite3.OperationalError('disk I/O error')
            commit(dialect, connection)
            self.after('commit')

        default.DefaultDialect.do_commit = counted


def _reads(name, args):
    """Return whether a call, or a command that has ended, changes nothing."""
    if name == 'communicate':
        return not _READING_WORDS.isdisjoint(args[0].args)
    return name == 'ioctl' and args[1] in _READING_REQUESTS


def _size(file):
    """Return the size of an open file, None for anything else."""
    return os.fstat(file).st_size if isinstance(file, int) else None
