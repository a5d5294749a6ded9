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


"""A stand-in for QEMU and libvirt: a process with the disk of a server.

It outlives a drain that is killed. Its argument is the path of its socket; it
obeys requests in JSON, one for each connection.
"""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import time

# What it writes is in the file of a loop device at once.
_FLAGS = os.O_RDWR | os.O_SYNC

_STEP = 1 << 20
_OFFSETS = (0, (1 << 30) - (1 << 20))


class Disk:
    """The disk: ``path`` is open, and so is ``mirror`` while it is copied."""

    def __init__(self, path):
        self.path = os.path.realpath(path)
        # of the disk that it has, as libvirt knows it
        self.link = path
        self.mirror = ''
        self.files = [os.open(self.path, _FLAGS)]

    def state(self):
        return {'mirror': self.mirror}

    def write(self, text):
        for file in self.files:
            for offset in _OFFSETS:
                os.pwrite(file, text.encode() * (1 << 16), offset)

    def start(self, path):
        self.mirror = path
        self.files.append(os.open(path, _FLAGS))
        if stat.S_ISBLK(os.fstat(self.files[0]).st_mode):
            # a device does not tell where it has data
            for offset in _OFFSETS:
                data = os.pread(self.files[0], _STEP, offset)
                os.pwrite(self.files[1], data, offset)
            return
        start = 0
        with contextlib.suppress(OSError):
            while True:
                start = os.lseek(self.files[0], start, os.SEEK_DATA)
                data = os.pread(self.files[0], _STEP, start)
                os.pwrite(self.files[1], data, start)
                start += len(data)

    def pivot(self):
        # as QEMU does, to have it read-only then
        os.close(os.open(self.link, os.O_RDONLY))
        os.close(self.files.pop(0))
        self.path = self.link = self.mirror
        self.mirror = ''

    def abort(self):
        os.close(self.files.pop(1))
        self.mirror = ''

    def quit(self):
        sys.exit()


def serve(address, path):
    disk = Disk(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address + '.new')
    listener.listen()
    os.rename(address + '.new', address)
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile('rw') as stream:
            name, *arguments = json.loads(stream.readline())
            try:
                found = getattr(disk, name)(*arguments)
            except SystemExit:
                os.unlink(address)
                raise
            stream.write(json.dumps(found) + '\n')
            stream.flush()


class Guests:
    """The servers of which one may run, by the socket at ``address``."""

    rate = 0

    def __init__(self, address):
        self.address = address

    def boot(self, path):
        """Start the server with a disk."""
        # whoever starts it may be killed
        subprocess.Popen(
            [sys.executable, '-IS', __file__, self.address, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        while not os.path.exists(self.address):
            time.sleep(0.02)

    def ask(self, *request):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.address)
            with client.makefile('rw') as stream:
                stream.write(json.dumps(request) + '\n')
                stream.flush()
                found = json.loads(stream.readline() or 'null')
        # a step at which the drain may be killed
        with open(self.address + '.asked', 'w') as stream:
            stream.write(request[0])
        os.replace(self.address + '.asked', self.address + '.last')
        return found

    def end(self):
        """Stop the server, if it runs."""
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            self.ask('quit')

    def find(self, server, volume_id):
        return Guest(self) if os.path.exists(self.address) else None


class Guest:
    """The disk of a server, as a move sees it."""

    def __init__(self, guests):
        self.start = lambda path: guests.ask('start', path)
        self.pivot = lambda: guests.ask('pivot')
        self.abort = lambda: guests.ask('abort')
        self._guests = guests

    def job(self):
        from cinder_vdisk_mapper.moves import vdisk_steps

        path = self._guests.ask('state')['mirror']
        return vdisk_steps.Job(path, 1, 1, True) if path else None


if __name__ == '__main__':
    serve(*sys.argv[1:])
