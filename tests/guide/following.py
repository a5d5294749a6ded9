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

"""Following the steps of the guide on a machine, as its reader does."""

import re
import time

from tests.guide import outputs
from tests.guide import settings

#: seconds until a check shows what the page has
PATIENCE = 300

_LOG_IN = '. ./admin-openrc\n'

# Lines that a check may print besides, on its standard error.
_BESIDES = re.compile(
    # the client of RabbitMQ, if an answer comes when the command leaves
    r'^Received method .* during closing channel .*\n',
    re.MULTILINE,
)


class Follower:
    """Writes files and runs commands word for word, and compares the checks.

    :param machine: where.
    :param words: (word of the page, word here) for what differs.
    :param names: (name here, name of the page) for what commands print.
    :param typed: (part of a command that asks, lines that are typed).
    """

    def __init__(self, machine, words=(), names=(), typed=()):
        self.machine = machine
        self._words = words
        # that of a device may begin that of another one
        self._names = sorted(names, key=lambda pair: -len(pair[0]))
        self._typed = typed

    def follow(self, step):
        """Do a step and check it.

        :raises AssertionError: a command fails, or a check shows something
            else than the page.
        """
        for file in step.files:
            self.write(file)
        if step.commands:
            script = ''.join(map(self._script, step.commands))
            answers = next(
                (typed for asks, typed in self._typed if asks in script), ()
            )
            status, printed = self.machine.run(f'set -e\n{script}', answers)
            if status:
                raise AssertionError(f'{step.name}: {status}: {printed}')
        for command in step.checks:
            self.check(command)

    def write(self, file):
        """Change a file of the machine as a page has it."""
        path = self.machine.root / file.path.lstrip('/')
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else ''
        path.write_text(settings.merge(before, file.text))

    def check(self, command):
        """Run a command until it prints what the page has."""
        deadline = time.monotonic() + PATIENCE
        while True:
            _, printed = self.machine.run(self._script(command))
            printed = _BESIDES.sub('', printed)
            for here, there in self._names:
                printed = printed.replace(here, there)
            found = outputs.differs(command.output, printed)
            if not found:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f'{command.line}: {found}')
            time.sleep(2)

    def _script(self, command):
        """Return a command as it is run here; who has $ has logged in."""
        line = command.line
        for word, here in self._words:
            line = line.replace(word, here)
        log_in = _LOG_IN if command.prompt == '$' else ''
        return f'{log_in}{line}\n'
