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



# Show exact local disk placement on a real OpenStack of this machine.
#
#   tools/demo.sh [--report FILE] [--keep] [--network] [--state DIR]
#   tools/demo.sh --stop [--state DIR]
#
#   --report FILE  write the results of the checks as JSON
#   --keep         leave the cloud running
#   --network      have a network, "private", for clients that insist on one
#   --stop         take down the cloud that --keep left
#   --state DIR    directory for the cloud's files: a new one in /var/tmp by
#                  default, /var/tmp/diskplacer-demo with --keep and --stop
#
# Takes root and a Debian 12 machine; installs what is missing. Brings up the
# services, boots servers, shows which vdisk is on which disk, checks that it
# is as asked, and takes everything down. The exit status is 0 only if every
# check holds.

set -u -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "$@"

env_cloud
exec "$VENV/bin/python" -m tools.minicloud --spent "$SECONDS" "$@"
