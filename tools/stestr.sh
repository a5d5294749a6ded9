#!/usr/bin/env bash
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

# Run tests, those of each package in a process of its own:
#
#   tools/stestr.sh PATH [STESTR-RUN-OPTION]...
#
# PATH is a directory such as tests/unit, a package of it or a package or a
# module, without .py, below that. Nova and Cinder register options of the same
# names, so that their code cannot be imported into one process.

set -u
. "$(dirname "${BASH_SOURCE[0]}")/lib/env.sh"
env_help "${1:-}"
# the services' own, by the hundred
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore::DeprecationWarning}
path=${1%/}
shift
status=0
shopt -s nullglob
packages=("$path"/*/__init__.py)
if [[ $path == */*/* || ${#packages[@]} -eq 0 ]]; then
    packages=("$path/__init__.py")
fi
if [ -e "$path.py" ]; then
    packages=("$(dirname "$path")/__init__.py")
    set -- "$@" "${path//\//\\.}\\."
fi
for package in "${packages[@]}"; do
    package=${package%/__init__.py}
    echo "== $package"
    # in the background it is ignored, also by all that tests start
    env --default-signal=INT \
        stestr --test-path "$package" \
        --repo-url "${STESTR_REPOSITORY:-.}" \
        run "$@" || status=1
done
exit $status
