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

"""Disks for tests that take as long for requests as real ones."""

import collections.abc
import contextlib
import pathlib
import socket
import subprocess

PLUGIN = pathlib.Path(__file__).with_name('plugin.py')


@contextlib.contextmanager
def serve(
    size: int, kind: str, cache: int = 0, slower: float = 1
) -> collections.abc.Iterator[socket.socket]:
    """Serve a disk to the one client that gets the socket.

    The server ends with the context, with this thread, or when nobody has the
    socket any more.

    :param size: bytes.
    :param kind: hdd or ssd.
    :param cache: bytes of the write-back cache of an hdd.
    :param slower: how many times as long an hdd takes for everything.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            process = subprocess.Popen(
                ['setpriv', '--pdeathsig', 'KILL', 'nbdkit', '--single',
                 '--threads=64', 'python', str(PLUGIN), f'size={size}',
                 f'kind={kind}', f'cache={cache}', f'slower={slower}'],
                stdin=ours,
                stdout=ours,
            )  # fmt: skip
        try:
            yield theirs
        finally:
            process.kill()
            process.wait()
