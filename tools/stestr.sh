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
#
# PACKAGES_AT_ONCE is how many packages run at once, 1 by default. With more, the
# package with the most code begins first, and what is not "ok" is printed when
# it has ended: most packages end with a test that the others' workers wait for.

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

# Run the tests of a package.
run_package() {
    local package=$1 repository=$2
    shift 2
    echo "== $package"
    # in the background it is ignored, also by all that tests start
    env --default-signal=INT \
        stestr --test-path "$package" --repo-url "$repository" run "$@"
}

# Run the tests of a package beside others. Print what passes at once, and all
# else, which has many lines, when it has ended.
run_beside() {
    local package=$1 directory=$2
    shift 2
    mkdir -p "$directory/$package"
    run_package "$package" "$directory/$package" "$@" |
        awk -v file="$directory/$package/printed" '
            /^[{][0-9]+[}] .* [.][.][.] ok$/ { print; fflush(); next }
            { print > file }'
    local status=${PIPESTATUS[0]}
    flock "$directory" cat "$directory/$package/printed"
    return "$status"
}

packages=("${packages[@]%/__init__.py}")
if [ "${PACKAGES_AT_ONCE:-1}" -gt 1 ] && [ ${#packages[@]} -gt 1 ]; then
    directory=$(mktemp -d)
    trap 'rm -rf "$directory"' EXIT
    export -f run_package run_beside
    du --summarize --apparent-size "${packages[@]}" | sort -rn | cut -f2 |
        xargs -I {} -P "$PACKAGES_AT_ONCE" \
            bash -c 'run_beside "$@"' bash {} "$directory" "$@" || status=1
else
    for package in "${packages[@]}"; do
        run_package "$package" "${STESTR_REPOSITORY:-.}" "$@" || status=1
    done
fi
exit $status
