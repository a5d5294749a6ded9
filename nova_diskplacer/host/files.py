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

"""Replaces small files atomically."""

import os


def replace(path: str, text: str, *, durable: bool) -> None:
    """Replace the content of a file; an error leaves the file unchanged.

    :param durable: flush the file and its directory to the disk. Otherwise
        the file may be empty after a crash of the machine.
    :raises OSError: the file cannot be written.
    """
    with open(path + '.new', 'w', encoding='utf-8') as stream:
        stream.write(text)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    os.rename(path + '.new', path)
    if durable:
        directory = os.open(
            os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY
        )
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
