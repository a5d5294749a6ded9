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

"""Runs diskplacer-manage for each line of standard input, until one fails.

A line is the list of arguments in JSON. All share what was imported.
"""

import json
import os
import sys

from nova_diskplacer.cmd import manage


def main() -> int:
    for line in sys.stdin.read().splitlines():
        argv = json.loads(line)
        # imports the command
        manage.make_parser(argv)
        child = os.fork()
        if not child:
            sys.exit(manage.main(argv))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            return status
    return 0


if __name__ == '__main__':
    sys.exit(main())
