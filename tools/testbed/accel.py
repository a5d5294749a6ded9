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

"""Which of QEMU's accelerators to use: KVM where it works, else TCG."""

import os
import pathlib

from tools.testbed import image

ALWAYS = 'tcg'
# A guest takes a few seconds to boot with KVM. Where /dev/kvm is there but
# does not work, it never does.
PATIENCE = 30
_DEVICE = pathlib.Path('/dev/kvm')
_BOOT_ID = pathlib.Path('/proc/sys/kernel/random/boot_id')


def _record() -> pathlib.Path:
    return image.CACHE / 'kvm-broken'


def candidates() -> list[str]:
    """Return the accelerators to try, the better first.

    KVM is not among them if it has not worked since this machine booted.
    """
    usable = os.access(_DEVICE, os.R_OK | os.W_OK)
    if usable and not _broken():
        return ['kvm', ALWAYS]
    return [ALWAYS]


def _broken() -> bool:
    try:
        return _record().read_text() == _BOOT_ID.read_text()
    except FileNotFoundError:
        return False


def remember(name: str) -> None:
    """Have KVM not tried again if another had to be used."""
    if name != candidates()[0]:
        _record().write_text(_BOOT_ID.read_text())
