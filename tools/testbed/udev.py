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

"""The guest's udev."""

import subprocess

# How often udev may not answer: on a busy machine it does not in time.
_ATTEMPTS = 5


def settle() -> None:
    """Wait until udev has looked at what was closed.

    What it has open for that cannot be deactivated or taken by anybody.

    :raises RuntimeError: udev does not answer; says what udevadm says.
    """
    for _ in range(_ATTEMPTS):
        done = subprocess.run(
            ['udevadm', 'settle', '--timeout=600'],
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return
    raise RuntimeError(
        f'udevadm settle ended with {done.returncode}: {done.stderr}'
    )
