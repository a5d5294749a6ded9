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


"""Runs a program with ``tools.minicloud.iscsi`` in place of iSCSI.

python -m tools.minicloud.with_iscsi PROGRAM ...
"""

import importlib.metadata
import sys


def main() -> None:
    del sys.argv[0]
    (program,) = importlib.metadata.entry_points(
        group='console_scripts', name=sys.argv[0]
    )
    # cinder-volume has eventlet patch modules, which oslo.privsep and others
    # look at once, when they are imported
    run = program.load()
    from tools.minicloud import iscsi

    iscsi.install()
    sys.exit(run())


if __name__ == '__main__':
    main()
