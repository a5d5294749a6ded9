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

"""A user without privileges, for whom a test runs commands as root.

The test serves a Unix socket. This file, run as a program, sends a command to
such a socket, as sudo would run it, and exits with the command's status.
"""

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading

#: user and group id of nobody
USER = 65534

#: options of subprocess for a process of that user
AS_USER = {'user': USER, 'group': USER, 'extra_groups': []}

_PROGRAM = os.path.abspath(__file__)
_PRIVSEP_HELPER = os.path.join(
    os.path.dirname(sys.executable), 'privsep-helper'
)


def helper_command(address, conf):
    """Return the ``helper_command`` that asks the socket ``address``."""
    return (
        f'{sys.executable} {_PROGRAM} {address} '
        f'{_PRIVSEP_HELPER} --config-file {conf}'
    )


@contextlib.contextmanager
def serve(address, log=None):
    """Serve a socket of the user, and run as root what is sent there.

    :param log: path of a file for what the commands print.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_Server(address, _Request))
        server.output = stack.enter_context(open(log, 'ab')) if log else None
        os.chown(address, USER, USER)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            server.shutdown()


def check_readable(env=None):
    """Check that the user can run this Python, the project and this file.

    :param env: the environment of the user's processes.
    :raises AssertionError: a file or directory is closed to the user.
    """
    code = 'import sys, cinder, cinder_vdisk_mapper; open(sys.argv[1])'
    try:
        done = subprocess.run(
            [sys.executable, '-c', code, _PROGRAM],
            **AS_USER,
            env=env,
            cwd='/',
            capture_output=True,
            text=True,
        )
        error = done.returncode and done.stderr.strip().splitlines()[-1]
    except PermissionError as refused:
        error = refused
    if error:
        raise AssertionError(
            f'user {USER} cannot read the project: this test takes a '
            f'checkout ({_PROGRAM}) and a Python '
            f'({sys.executable}, {os.path.realpath(sys.executable)}) in '
            f'directories that all users can read: {error}'
        )


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Request(socketserver.StreamRequestHandler):
    def handle(self):
        done = subprocess.run(
            json.loads(self.rfile.read()),
            stdin=subprocess.DEVNULL,
            stdout=self.server.output,
            stderr=self.server.output,
        )
        self.wfile.write(str(done.returncode).encode())


def _ask(address, *command):
    """Send a command to a socket, and return its exit status."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(json.dumps(command).encode())
        connection.shutdown(socket.SHUT_WR)
        return int(connection.makefile().read())


if __name__ == '__main__':
    sys.exit(_ask(*sys.argv[1:]))
