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

# Run the tests of each package below a directory in a process of its own:
#
#   tools/stestr.sh DIRECTORY [STESTR-RUN-OPTION]...
#
# Nova and Cinder register options of the same names, so that their code
# cannot be imported into one process. A directory without packages is one.

set -u
# the services' own, by the hundred
export PYTHONWARNINGS=${PYTHONWARNINGS:-ignore::DeprecationWarning}
directory=$1
shift
status=0
shopt -s nullglob
packages=("$directory"/*/__init__.py)
for package in "${packages[@]:-$directory/__init__.py}"; do
    package=${package%/__init__.py}
    echo "== $package"
    # in the background it is ignored, also by all that tests start
    env --default-signal=INT \
        stestr --test-path "$package" \
        --repo-url "${STESTR_REPOSITORY:-.}" \
        run "$@" || status=1
done
exit $status
