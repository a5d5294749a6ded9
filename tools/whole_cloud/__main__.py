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


"""Runs in the guest: starts the cloud and puts it through its steps.

python -m tools.whole_cloud JSON
"""

import json
import pathlib
import sys

from tools.minicloud import moving
from tools.minicloud import process
from tools.minicloud.api import ApiError
from tools.whole_cloud import setup
from tools.whole_cloud import show

DIRECTORY = pathlib.Path('/var/tmp/cloud')
FAILURES = (
    ApiError,
    moving.WrongError,
    process.ProcessError,
    show.WrongError,
)


def main() -> int:
    setup.prepare_guest()
    cloud = setup.make(DIRECTORY)
    put_through = show.Show(cloud)
    failure = ''
    try:
        cloud.start()
        put_through.run()
    except FAILURES as error:
        failure = f'{type(error).__name__}: {error}'
        print(failure, cloud.errors(), sep='\n')
    outcome = {
        'failure': failure,
        'seconds': cloud.seconds,
        **put_through.found,
    }
    pathlib.Path(sys.argv[1]).write_text(json.dumps(outcome, indent=2))
    return 1 if failure else 0


if __name__ == '__main__':
    sys.exit(main())
