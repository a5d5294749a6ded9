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

"""Commands without what makes them slow to start, by the thousand."""

import subprocess

from oslo_concurrency import processutils


def start_quickly():
    """Have this process start commands quickly from now on.

    A limit of memory takes a Python for each command; a function that is to
    be called before the command takes a fork, which copies the pages of both
    processes that they touch afterwards. oslo.concurrency's function gives
    SIGPIPE its default back, which subprocess does anyway.
    """
    execute = processutils.execute
    processutils.execute = lambda *command, prlimit=None, **options: execute(
        *command, **options
    )
    start = subprocess.Popen.__init__
    subprocess.Popen.__init__ = (
        lambda self, *args, preexec_fn=None, **options: start(
            self, *args, **options
        )
    )
