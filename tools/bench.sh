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


# Run a benchmark in an environment that this script makes itself.
#
#   tools/bench.sh NAME [--json FILE] [ARGUMENT...]
#
# NAME is a file of benchmarks/ without its .py; without a NAME, the script
# prints all names. Those that measure a real cloud, or in a testbed guest, must
# run as root.

set -u
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
env_help "${1:-}"

# benchmarks that run real services
CLOUD='background_cost mapping_throughput sweep'
# benchmarks that run in the guest of tools/testbed.sh
TESTBED='agent_cost contention driver_ops elastic io_cost_feedback'
TESTBED+=' profile_effect striping'

names=$(cd benchmarks && echo [!_]*.py)
names=${names//.py/}
name=${1:-}
if [[ -z $name || " $names " != *" $name "* ]]; then
    echo "usage: tools/bench.sh NAME [--json FILE]; NAME: $names" >&2
    exit 2
fi
shift

profile=''
cloud=''
if [[ " $CLOUD " == *" $name "* ]]; then
    profile=cloud
    cloud=cloud
elif [[ " $TESTBED " == *" $name "* ]]; then
    profile=testbed
fi
if [ -n "$profile" ] && [ "$(id -u)" -ne 0 ]; then
    echo "tools/bench.sh: $name runs a real $profile: needs root" >&2
    exit 1
fi
# shellcheck disable=SC2086
env_packages $profile && env_make $cloud || exit 1
export PYTHONPATH=$ENV_TOP
cd "$here" && exec python "$ENV_TOP/benchmarks/$name.py" "$@"
