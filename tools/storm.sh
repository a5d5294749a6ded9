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


# Let a storm of faults come over a real OpenStack of this machine, and check
# that no byte is lost and everything agrees afterwards.
#
#   tools/storm.sh [--long | --minutes N] [--seed N] [--json FILE] [--logs DIR]
#   tools/storm.sh --moves [WORD ...] [--json FILE] [--logs DIR]
#
#   --long       have faults for 60 minutes
#   --minutes N  have faults for N minutes (15)
#   --moves      kill each program at each phase of a server's move; with
#                words, only what has one of them in its name
#   --seed N     that of an earlier storm, for the same faults and operations
#   --json FILE  write the outcome
#   --logs DIR   copy the logs of all services to a new directory
#
# Takes root and a Debian 12 machine; installs what is missing. The exit
# status is 0 only if the project violates nothing. See
# doc/source/contributor/storm.rst.

set -u -o pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "$@"

env_cloud
# in a mount namespace of its own: one that others make would have copies of
# its mounts, and keep a disk that has failed
# shellcheck disable=SC2016
cd "$here" && exec unshare --mount bash -c '
    . "$0" && contain_drop_mounts "$1" "$2" "$PWD" && shift && exec "$@"
' "$ENV_TOP/tools/lib/contain.sh" "$ENV_TOP" "$VENV/bin/python" \
    -m tools.storm "$@"
