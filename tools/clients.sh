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

# Have real clients create servers with vdisks on a real OpenStack of this
# machine, which has one network.
#
#   tools/clients.sh [--json FILE] [--logs DIR] [CLIENT...]
#
#   --json FILE  write the outcome
#   --logs DIR   copy the logs of all services and clients, and a picture of a
#                page of Horizon that was not as expected, to a new directory
#   CLIENT       only some of novaclient, terraform, ansible and horizon
#
# Takes root and a Debian 12 machine; installs what is missing. Terraform and Go
# are those of the machine. The exit status is 0 only if every check was run and
# came out as expected. See doc/source/contributor/clients.rst.

set -u -o pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "$@"

env_cloud clients
cd "$here" && exec "$VENV/bin/python" -m tools.clients "$@"
