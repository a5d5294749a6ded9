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


# Run tempest tests on a real OpenStack of this machine, with VDiskMapperDriver
# as its only volume driver.
#
#   tools/tempest.sh [--suite SUITE] [--json FILE] [--concurrency N] [--keep]
#                    [REGEX...]
#
#   --suite SUITE    volumes: those of Cinder, the default; of servers with
#                    vdisks on two hosts: live: live migration; cold: cold
#                    migration, resize and shelving
#   --json FILE      write the outcome
#   --concurrency N  tests at once (2)
#   --keep           leave the cloud running
#   REGEX            only tests whose name matches one of these
#
# Takes root and a Debian 12 machine; installs what is missing. The exit status
# is 0 only if every failure and every skip is explained in
# tools/tempest/known.toml. DISKPLACER_CLOUD names the directory of a cloud to
# use as it is instead, such as one that --keep left.

set -u -o pipefail
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "$@"

# Have tempest in an environment that is made once for each set of versions.
tempest_make() {
    local key
    key=$(cat tools/tempest/requirements.txt "$ENV_LIB/constraints.txt" |
        sha256sum | cut -c1-12)
    TEMPEST_VENV=$ENV_TOP/.venv/tempest-$key
    (
        flock 9
        if [ ! -e "$TEMPEST_VENV/.done" ]; then
            env_say "tempest in ${TEMPEST_VENV#"$ENV_TOP"/}"
            rm -rf "$TEMPEST_VENV"
            python -m venv "$TEMPEST_VENV" &&
                tempest_install &&
                touch "$TEMPEST_VENV/.done"
        fi 9>&-
    ) 9> "$ENV_TOP/.venv/tempest.lock"
}

tempest_install() {
    "$TEMPEST_VENV/bin/python" -m pip install -q \
        -c "$ENV_LIB/constraints.txt" -r tools/tempest/requirements.txt
}

env_cloud
tempest_make || exit 1
export TEMPEST_BIN=$TEMPEST_VENV/bin
cd "$here" && exec "$VENV/bin/python" -m tools.tempest "$@"
