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


"""Commands that tests run."""

import subprocess
import time

# Seconds until a device is no longer busy.
_PATIENCE = 120


def run(*command, **options):
    """Return what a command prints, without white space around it.

    :param options: of ``subprocess.run``.
    :raises AssertionError: the command fails; the error has its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(
            f'{command} ended with {done.returncode}:\n'
            f'{done.stdout}\n{done.stderr}'
        )
    return done.stdout.strip()


def run_retry(*command):
    """Run a command on a device, again while the device is busy.

    Other processes, such as udev, open any device for a moment.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return run(*command)
        except AssertionError as error:
            if 'busy' not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.05)
