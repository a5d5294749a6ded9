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

"""Bounds the time that the kernel spends on copies of mirrors.

The setting is that of all mirrors of the host. Its former value is saved
before it is changed, so that a killed process does not lose it.
"""

import os

from nova_diskplacer import exception
from nova_diskplacer.host import files
from nova_diskplacer.host import saved_settings
from nova_diskplacer.host import sysfs

_PARAMETERS = '/sys/module/dm_mirror/parameters'
_NAME = 'raid1_resync_throttle'
_KEY = 'mirrors'


def limit_copies(percent: int) -> None:
    """Let the kernel copy for a part of the time only.

    :param percent: that part, 1 to 100.
    :raises DiskError: it is none, or the setting cannot be read, saved or
        changed.
    """
    if not 1 <= percent <= 100:
        raise exception.DiskError(
            f'{percent} is no part of the time that copies may take: 1 to 100 '
            'percent are'
        )
    path = f'{_PARAMETERS}/{_NAME}'
    with files.disk_errors(path):
        saved = _saved()
        if saved.get_originals(_KEY, '', '') is None:
            values = {_NAME: sysfs.read(path)}
            saved.save(_KEY, saved_settings.DeviceSettings('', '', values))
        sysfs.write(path, str(percent))


def release_throttle() -> None:
    """Give the setting its former value.

    :raises DiskError: it cannot be changed.
    """
    with files.disk_errors(_PARAMETERS):
        _saved().restore(_KEY)


def _saved() -> saved_settings.SavedSettings:
    return saved_settings.SavedSettings(_directory(), _write_back)


def _directory() -> str:
    return os.path.join(files.lock_directory(), 'saved')


def _write_back(settings: saved_settings.DeviceSettings) -> bool:
    value = settings.values.get(_NAME, '')
    # the file is as trustworthy as the directory that its caller has named
    if [*settings.values] != [_NAME] or not value.isdecimal():
        raise exception.DiskError(
            f'the saved settings of mirrors are {dict(settings.values)}, and '
            f'only a number for {_NAME} is allowed: remove '
            f'{os.path.join(_directory(), _KEY)}.json'
        )
    sysfs.write(f'{_PARAMETERS}/{_NAME}', value)
    return True
