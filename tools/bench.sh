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


# Run benchmarks in an environment that this script makes itself.
#
#   tools/bench.sh NAME [--json FILE] [ARGUMENT...]
#   tools/bench.sh all [--list] [--hours N]
#   tools/bench.sh quick [--list] [--hours N]
#
# NAME is a file of benchmarks/ without its .py; without a NAME, the script
# prints all names. Those that measure a real cloud, or in a testbed guest, must
# run as root.
#
# all measures each result of benchmarks/results whose code has changed, in a
# day at most, and quick has shorter runs, about an hour in all. The same command
# continues what was interrupted. Both must run as root; --list shows what there
# is to do.

set -u
here=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tools/lib/env.sh
# both have options of their own, and help
[[ ${1:-} == all || ${1:-} == quick ]] || env_help "${1:-}"

name=${1:-}
profiles=''
cloud=''
script=$name.py
if [ "$name" = all ] || [ "$name" = quick ]; then
    profiles='cloud testbed hadoop'
    cloud=cloud
    script=_all.py
else
    names=$(cd benchmarks && echo [!_]*.py)
    names=${names//.py/}
    if [[ -z $name || " $names " != *" $name "* ]]; then
        echo "usage: tools/bench.sh NAME [--json FILE], all or quick;" \
            "NAME: $names" >&2
        exit 2
    fi
    kind=$(python3 benchmarks/_catalogue.py "$name") || exit 1
    [ "$kind" = none ] || profiles=$kind
    [ "$kind" != cloud ] || cloud=cloud
fi
[ "$script" = _all.py ] || shift

case " $* " in
    *' --list '* | *' --help '* | *' -h '*) profiles='' cloud='' ;;
esac
if [ -n "$profiles" ] && [ "$(id -u)" -ne 0 ]; then
    echo "tools/bench.sh: $name needs root" >&2
    exit 1
fi
# shellcheck disable=SC2086
env_packages $profiles && env_make $cloud || exit 1
export PYTHONPATH=$ENV_TOP
cd "$here" && exec python "$ENV_TOP/benchmarks/$script" "$@"
