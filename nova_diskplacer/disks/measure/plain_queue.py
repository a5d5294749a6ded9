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

"""Changes the queue of a disk while it is measured.

For models of io.cost its I/O scheduler and the merging of requests are off.
The kernel's own tool measures disks in this state, too:
``tools/cgroup/iocost_coef_gen.py``.
"""

import collections.abc
import contextlib
import os

from nova_diskplacer.host import block_queue
from nova_diskplacer.host import files
from nova_diskplacer.host import saved_settings

SCHEDULER = 'none'

_PLAIN = {block_queue.SCHEDULER: SCHEDULER, 'nomerges': '1'}

#: Changes settings of a queue; raises DiskError if the kernel refuses.
Change = collections.abc.Callable[[block_queue.Values], None]


@contextlib.contextmanager
def applied(
    state_dir: str, uuid: str, device: str
) -> collections.abc.Iterator[None]:
    """Change a disk's queue, and restore all of its settings at the end.

    See :func:`borrowed`.
    """
    with borrowed(state_dir, uuid, device) as change:
        change(_PLAIN)
        yield


@contextlib.contextmanager
def borrowed(
    state_dir: str, uuid: str, device: str
) -> collections.abc.Iterator[Change]:
    """Yield what changes a disk's queue, and restore it at the end.

    The agent does not change the queue meanwhile. If this process is killed,
    the next call or the agent restores all settings.

    :param state_dir: ``[diskplacer_agent] state_dir``.
    :param device: name of the device whose queue serves the disk alone.
    :raises DiskError: the settings cannot be saved, or the kernel refuses.
    """
    errors = f'the queue of {device}'
    saved = saved_settings_of(state_dir)

    def change(values: block_queue.Values) -> None:
        with files.disk_errors(errors):
            _write(device, values)

    with lock(uuid, wait=True):
        with files.disk_errors(errors):
            # those of a killed process
            saved.restore(uuid)
            queue = block_queue.read(device)
        saved.save(
            uuid,
            saved_settings.DeviceSettings(
                device, queue.sequence, queue.values
            ),
        )
        try:
            yield change
        finally:
            with files.disk_errors(errors):
                saved.restore(uuid)


def saved_settings_of(state_dir: str) -> saved_settings.SavedSettings:
    """Return the original settings of disks with a changed queue.

    :raises DiskError: the kernel has no boot ID.
    """
    return saved_settings.SavedSettings(
        os.path.join(state_dir, 'measure'), _write_back
    )


def lock(uuid: str, *, wait: bool) -> contextlib.AbstractContextManager[None]:
    """Lock a disk's queue against changes by other processes.

    :raises BlockingIOError: another process holds the lock, without ``wait``.
    """
    return files.lock(f'queue-{uuid}', wait=wait)


def _write_back(saved: saved_settings.DeviceSettings) -> bool:
    _write(saved.device, saved.values)
    return True


def _write(device: str, values: block_queue.Values) -> None:
    for setting in block_queue.SETTINGS:
        # the one before may have changed it
        now = block_queue.read(device).values
        if setting not in values or setting not in now:
            continue
        if values[setting] != now[setting]:
            block_queue.write(device, setting, values[setting])
