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

"""Locks disks against other processes of the host."""

import collections.abc
import contextlib
import fcntl
import os

from nova_diskplacer.host import files

DIRECTORY = '/run/diskplacer'


@contextlib.contextmanager
def hold(name: str, *, wait: bool) -> collections.abc.Iterator[None]:
    """Hold a lock; the kernel releases it if the process is killed.

    :param wait: whether to wait for another process that holds it.
    :raises BlockingIOError: another process holds it.
    """
    os.makedirs(DIRECTORY, mode=0o700, exist_ok=True)
    path = os.path.join(DIRECTORY, name)
    # a user who can open the file can hold the lock
    with files.opened(path, os.O_RDWR | os.O_CREAT, 0o600) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
