#!/bin/bash
#
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

# A Debian guest with several disks, for what needs a kernel of its own:
#
#   tools/testbed.sh build                make its image now, not when needed
#   tools/testbed.sh run COMMAND...       run a command in a new guest
#   tools/testbed.sh test NAME... [TEST]...
#                                         run tests/testbed/NAME in a new guest
#   tools/testbed.sh cloud [--json FILE]  run a whole cloud in a new guest, and
#                                         have its servers move
#   tools/testbed.sh clean                remove the image
#
# See doc/source/contributor/testbed.rst. Needs root to make the image.

set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "${1:-}"

# what the cloud takes has libvirt-python, which the guest uses too
env_packages testbed && env_make cloud || exit 1
# the guest can write nothing there, and takes a minute for Cinder's
python -m compileall -q nova_diskplacer cinder_vdisk_mapper tests tools
exec python -m tools.testbed "$@"
